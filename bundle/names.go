package bundle

import (
	"fmt"
	"path"
	"strings"
	"unicode/utf8"
)

func eventsMember(leaf string) string { return "events/" + leaf + ".ndjson.zst" }

func logMember(leaf, service string) string { return "logs/" + leaf + "/" + service + ".log" }

// validID reports whether a leaf's or service's name can stand in a member's name.
func validID(s string) bool {
	if s == "" || len(s) > 128 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		ok := c == '-' || c == '_' || c == '.' && i > 0 ||
			'0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !ok {
			return false
		}
	}
	return true
}

// specMember returns the member for a file of the specification. A ".." cannot stand in a member's
// name, so each of the leading ones becomes "%up"; a "%" becomes "%%".
func specMember(file string) (string, error) {
	clean := path.Clean(strings.ReplaceAll(file, "%", "%%"))
	if file == "" || path.IsAbs(clean) || clean == "." || clean == ".." || strings.HasSuffix(clean, "/..") {
		return "", fmt.Errorf("bundle: spec file %q: not a relative path of a file", file)
	}
	parts := strings.Split(clean, "/")
	for i, p := range parts {
		if p == ".." {
			parts[i] = "%up"
		}
	}
	name := "spec/" + strings.Join(parts, "/")
	if err := validName(name); err != nil {
		return "", fmt.Errorf("bundle: spec file %q: %w", file, err)
	}
	return name, nil
}

// specPath is the inverse of specMember.
func specPath(member string) (string, error) {
	parts := strings.Split(strings.TrimPrefix(member, "spec/"), "/")
	leading := true
	for i, p := range parts {
		if p == "%up" && leading && i < len(parts)-1 {
			parts[i] = ".."
			continue
		}
		leading = false
		if strings.Contains(strings.ReplaceAll(p, "%%", ""), "%") {
			return "", fmt.Errorf("name %q has a lone %%", member)
		}
		parts[i] = strings.ReplaceAll(p, "%%", "%")
	}
	return strings.Join(parts, "/"), nil
}

// validName refuses a member's name that could mean another place on some machine.
func validName(name string) error {
	if name == "" || len(name) > 512 || !utf8.ValidString(name) {
		return fmt.Errorf("name %.80q is empty, too long or not UTF-8", name)
	}
	for _, r := range name {
		if r < 0x20 || r == 0x7f || r == '\\' || r == ':' {
			return fmt.Errorf("name %q has a character that is not allowed", name)
		}
	}
	if path.IsAbs(name) || path.Clean(name) != name {
		return fmt.Errorf("name %q is absolute or not in its simplest form", name)
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." || part == "." {
			return fmt.Errorf("name %q leads out of the bundle", name)
		}
	}
	return nil
}
