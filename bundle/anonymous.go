package bundle

import (
	"os"
	"path/filepath"
)

// anonymous is a file that nobody sees until it is published.
type anonymous struct {
	*os.File
	// hidden is its name where it has one.
	hidden string
}

func newHidden(dir string) (*anonymous, error) {
	f, err := os.CreateTemp(dir, ".squall-tmp-*")
	if err != nil {
		return nil, err
	}
	return &anonymous{File: f, hidden: f.Name()}, nil
}

// publish puts the file at path, in the place of what was there. The file stays open.
func (a *anonymous) publish(path string) error {
	if a.hidden == "" {
		name := filepath.Join(filepath.Dir(path), ".squall-"+filepath.Base(path))
		_ = os.Remove(name) // of a run that was killed between link and rename
		if err := a.link(name); err != nil {
			return err
		}
		a.hidden = name
	}
	if err := os.Rename(a.hidden, path); err != nil {
		return err
	}
	a.hidden = ""
	return nil
}

// Close closes the file; what was not published is gone.
func (a *anonymous) Close() error {
	err := a.File.Close()
	if a.hidden != "" {
		_ = os.Remove(a.hidden)
	}
	return err
}
