"""mmulab: a laboratory for address translation and address-space switching."""
