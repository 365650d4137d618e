package squall

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// runsDir is where runs are kept where the caller does not say.
const runsDir = ".squall/runs"

// newRunDir makes the next numbered directory. Two runs at once get two numbers: making a
// directory either succeeds or fails.
func newRunDir(base string) (string, error) {
	next, err := lastRun(base)
	if err != nil {
		return "", err
	}
	for {
		next++
		dir := filepath.Join(base, fmt.Sprintf("%04d", next))
		err := os.Mkdir(dir, 0o755)
		if err == nil {
			return dir, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("squall: make %s: %w", dir, err)
		}
	}
}

func lastRun(base string) (int, error) {
	entries, err := os.ReadDir(base)
	if err != nil {
		return 0, fmt.Errorf("squall: read %s: %w", base, err)
	}
	last := 0
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil && n > last {
			last = n
		}
	}
	return last, nil
}
