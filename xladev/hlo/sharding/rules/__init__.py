"""Factor rules by family of opcodes; `table.factor_rule` gives that of an instruction."""
