package fault

import "fmt"

// effect says what the rule does in the words of the spec.
func (s *Syscall) effect() string {
	on := ""
	if s.Link != nil {
		on = ", link=" + s.Link.String()
	}
	switch {
	case s.Crash && s.Partial > 0:
		return fmt.Sprintf("%s=crash(bytes=%d%s)", s.Family, s.Partial, on)
	case s.Crash:
		return fmt.Sprintf("%s=crash(%s)", s.Family, cut(on))
	case s.Hold:
		return fmt.Sprintf("%s=hold(%s)", s.Family, cut(on))
	case s.Partial > 0:
		return fmt.Sprintf("%s=partial(%d%s)", s.Family, s.Partial, on)
	case s.Errno != "" && s.Delay > 0:
		return fmt.Sprintf("%s=delay(%q, errno=%q%s)", s.Family, s.Delay, s.Errno, on)
	case s.Errno != "":
		return fmt.Sprintf("%s=deny(%q%s)", s.Family, s.Errno, on)
	}
	return fmt.Sprintf("%s=delay(%q%s)", s.Family, s.Delay, on)
}

// cut takes the separator off a first argument.
func cut(argument string) string {
	if len(argument) > 2 {
		return argument[2:]
	}
	return argument
}

// String writes the pair as it stands in records.
func (p Pair) String() string {
	name := func(s string) string {
		if s == "" {
			return "*"
		}
		return s
	}
	sep := " <-> "
	if p.Directed {
		sep = " -> "
	}
	return name(p.A) + sep + name(p.B)
}

// Partials are the calls that can come up short.
func Partials() []string {
	return []string{
		"read", "readv", "pread64", "preadv", "preadv2", "write", "writev", "pwrite64", "pwritev", "pwritev2",
		"sendto", "sendmsg", "recvfrom", "recvmsg",
	}
}
