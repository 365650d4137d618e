package starbind

func (ld *loader) lint() {}
