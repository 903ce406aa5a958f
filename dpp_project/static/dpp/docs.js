"use strict";
const place = document.getElementById("api");
SwaggerUIBundle({ url: place.dataset.document, domNode: place, deepLinking: true, validatorUrl: null, tryItOutEnabled: true });
