"""Words of all layers: names, errors, settings, and what is read of JSON. They import no layer."""
