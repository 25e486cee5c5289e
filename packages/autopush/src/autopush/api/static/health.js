/** The word next to the health link: asked once, when the page opens. */

const word = document.querySelector("#health");

try {
  const answer = await fetch("/health");
  const { status } = await answer.json();
  if (status) {
    word.textContent = answer.ok ? "all well" : "not well";
    word.dataset.state = answer.ok ? "done" : "failed";
  }
} catch {
  // No word is shown: the link tells more than this page could.
}
