"""Programs that repeat a block, as the layers of a network do: searched with a few of them."""
