// The page Report: one text to paste.
import { post } from "./requests.js";

const $ = (id) => document.getElementById(id);

$("make").addEventListener("click", async () => {
  $("make").disabled = true;
  $("said").textContent = "Checking; this takes some seconds …";
  try {
    const { report } = await post("report.json");
    $("report").textContent = report;
    $("result").hidden = $("copy").hidden = false;
    $("said").textContent = "Done.";
  } catch (error) {
    $("said").textContent = error.message;
  }
  $("make").disabled = false;
});
$("copy").addEventListener("click", async () => {
  await navigator.clipboard.writeText($("report").textContent);
  $("said").textContent = "Copied.";
});
