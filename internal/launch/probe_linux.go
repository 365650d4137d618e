package launch

func probeInside() int { return 0 }
