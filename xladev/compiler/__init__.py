"""HLO to plan: the Compiler contract and what every backend's compiler shares."""
