// Requests to the console, and the question before one that changes something.
const $ = (id) => document.getElementById(id);

/** The answer to a POST; throws an error with the words of the console. */
export async function post(path, fields = {}) {
  let answer;
  try {
    answer = await fetch(`/console/${path}`, { method: "POST", body: new URLSearchParams(fields) });
  } catch {
    throw new Error("The service does not answer");
  }
  if (answer.status === 401) location.assign("/console/log-in");
  const document = await answer.json().catch(() => ({ error: `Status ${answer.status}` }));
  if (!answer.ok) throw new Error(document.error ?? document.message ?? `Status ${answer.status}`);
  return document;
}

/** Whether the operator says yes, with a button of that `kind`. */
export function confirmed(question, consequence, yes, kind = "danger") {
  const dialog = $("confirm");
  $("question").textContent = question;
  $("consequence").textContent = consequence;
  $("yes").textContent = yes;
  $("yes").className = kind;
  dialog.showModal();
  return new Promise((resolve) => {
    const answer = (isSure) => { dialog.close(); resolve(isSure); };
    $("yes").onclick = () => answer(true);
    $("cancel").onclick = () => answer(false);
    dialog.oncancel = () => resolve(false); // Escape, which closes it
  });
}
