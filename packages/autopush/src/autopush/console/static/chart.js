// A line over the last hour as inline SVG, which grows with its box.
const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 360, HEIGHT = 48;

function element(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

export function chart() {
  const svg = element("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" });
  const area = element("path", { class: "area" }), line = element("path", { class: "line" });
  svg.append(area, line);
  return { svg, area, line };
}

/** `points`: [epoch seconds, value]; `until`: the right edge; `label`: what a screen reader says. */
export function draw({ svg, area, line }, points, until, label) {
  svg.setAttribute("aria-label", label);
  const top = Math.max(...points.map(([, value]) => value), 0) || 1;
  // Until there is an hour, as much as there is, so that the line can be read.
  const span = Math.min(3600, Math.max(300, until - (points[0]?.[0] ?? until)));
  const steps = points.map(([at, value]) => [
    Math.max(0, WIDTH * (1 - (until - at) / span)), HEIGHT - 2 - (value / top) * (HEIGHT - 6)]);
  const path = steps.map(([x, y], n) => `${n ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
  line.setAttribute("d", path);
  area.setAttribute("d", steps.length
    ? `${path}L${steps.at(-1)[0].toFixed(1)} ${HEIGHT}L${steps[0][0].toFixed(1)} ${HEIGHT}Z` : "");
}
