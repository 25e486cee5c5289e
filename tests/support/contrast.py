"""Texts of a page that stand out too little from what is behind them, for a real browser."""

LOW_CONTRAST = """
(() => {
  const canvas = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
  const parts = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = (color) => {
    const [r, g, b] = parts(color).map((c) => c / 255)
      .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = getComputedStyle(at).backgroundColor;
      if (parts(color)[3] !== 0) return color;
    }
    return 'rgb(255, 255, 255)';
  };
  const seen = (element) => element.checkVisibility() && element.textContent.trim()
    && !element.closest('.unseen, .skip');
  const texts = 'h1, h2, p, dt, dd, th, td, summary, label, li, a, button, span, text';
  return [...document.querySelectorAll(texts)].filter(seen)
    .map((element) => {
      const style = getComputedStyle(element);
      const own = element.tagName === 'text' ? style.fill : style.color;
      const [a, b] = [light(own), light(behind(element))];
      const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      return [ratio, element.tagName + '.' + element.className + ' ' + element.textContent.trim()];
    })
    .filter(([ratio]) => ratio < 4.5)
    .map(([ratio, text]) => ratio.toFixed(2) + ' ' + text.slice(0, 60));
})()
"""
"""Evaluates to those with a ratio below 4.5, each with its ratio; in either colour scheme."""
