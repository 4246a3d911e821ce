"""What a program is: shapes, literals, the opset, the IR, its text and proto forms, its meaning."""
