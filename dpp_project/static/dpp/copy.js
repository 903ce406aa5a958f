"use strict";
for (const button of document.querySelectorAll("[data-copies]")) {
  const shown = document.getElementById(button.dataset.copies);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(shown.textContent);
      button.textContent = "Copied";
    } catch {
      // Without TLS, or refused by the browser: the key is selected, to be copied by hand.
      getSelection().selectAllChildren(shown);
    }
  });
}
