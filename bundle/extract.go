package bundle

import (
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
)

// ExtractSpec writes the specification's files below dir, which must exist, and returns the
// directory to which their paths are relative. Files whose path begins with ".." lie beside it, as
// they did; nothing is written outside dir.
func (r *Reader) ExtractSpec(dir string) (string, error) {
	files, err := r.SpecFiles()
	if err != nil {
		return "", err
	}
	depth := 0
	for _, f := range files {
		ups := 0
		for rest, ok := strings.CutPrefix(f.Path, "../"); ok; rest, ok = strings.CutPrefix(rest, "../") {
			ups++
		}
		depth = max(depth, ups)
	}
	base := "spec"
	for i := range depth {
		base = path.Join(base, strconv.Itoa(i))
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", fmt.Errorf("bundle: extract: %w", err)
	}
	defer root.Close()
	if err := root.MkdirAll(base, 0o755); err != nil {
		return "", fmt.Errorf("bundle: extract: %w", err)
	}
	for _, f := range files {
		name := path.Join(base, f.Path)
		if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return "", fmt.Errorf("bundle: extract %s: %w", f.Path, err)
		}
		out, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return "", fmt.Errorf("bundle: extract %s: %w", f.Path, err)
		}
		_, err = out.Write(f.Content)
		if cerr := out.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return "", fmt.Errorf("bundle: extract %s: %w", f.Path, err)
		}
	}
	return path.Join(dir, base), nil
}
