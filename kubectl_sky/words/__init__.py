"""Words of all layers: names, errors, settings, and the shapes of JSON. They import no layer."""
