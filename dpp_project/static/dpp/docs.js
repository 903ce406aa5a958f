"use strict";
const place = document.getElementById("api");
const dark = matchMedia("(prefers-color-scheme: dark)");
const follow = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", follow);
follow();
SwaggerUIBundle({ url: place.dataset.document, domNode: place, deepLinking: true, validatorUrl: null, tryItOutEnabled: true });
