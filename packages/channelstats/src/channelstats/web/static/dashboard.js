// What makes the dashboard handier. Every page is whole without it.
"use strict";

const form = document.querySelector(".filters");

// A choice is shown as soon as it is made; fields left empty stay out of the address.
if (form) {
  form.addEventListener("submit", () => {
    for (const field of form.elements) field.disabled = field.name !== "" && field.value === "";
  });
  for (const field of form.querySelectorAll("select"))
    field.addEventListener("change", () => form.requestSubmit());
  addEventListener("pageshow", () => {
    for (const field of form.elements) field.disabled = false;
  });
}

// A channel taken from the list is a choice; what is typed is one when it is sent.
form?.querySelector(".channel")?.addEventListener("input", (event) => {
  if (event.inputType === undefined || event.inputType === "insertReplacementText") form.requestSubmit();
});

// People are offered while a name is typed.
const person = form?.querySelector(".person");
const people = document.querySelector("#people");
let asking = new AbortController();
person?.addEventListener("input", async () => {
  asking.abort();
  asking = new AbortController();
  const { signal } = asking;
  try {
    const answer = await fetch(`/names.json?${new URLSearchParams({ like: person.value })}`, { signal });
    if (!answer.ok) return;
    const found = await answer.json();
    people.replaceChildren(
      ...found.map(({ value, name }) => new Option(name === value ? "" : name, value)),
    );
  } catch (error) {
    if (error.name !== "AbortError") throw error;
  }
});

// The numbers of a place in a chart, where the pointer is.
const tip = document.createElement("div");
tip.id = "tip";
tip.hidden = true;
tip.setAttribute("aria-hidden", "true");
document.body.append(tip);
const show = (event) => {
  const place = event.target.closest?.("[data-tip], svg a");
  tip.hidden = !place;
  if (!place) return;
  tip.textContent = place.dataset.tip ?? place.getAttribute("aria-label");
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = `${Math.min(event.clientX + 14, innerWidth - width - 8)}px`;
  tip.style.top = `${event.clientY - height - 12 < 4 ? event.clientY + 16 : event.clientY - height - 12}px`;
};
addEventListener("pointermove", show);
addEventListener("pointerdown", show);
addEventListener("scroll", () => (tip.hidden = true), { passive: true });

// Where the list of views has to be scrolled, the present one is in sight.
const current = document.querySelector(".views [aria-current]");
const list = current?.closest(".views");
if (list) list.scrollLeft = current.offsetLeft - (list.clientWidth - current.offsetWidth) / 2;
