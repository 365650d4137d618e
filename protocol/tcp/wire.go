package tcp

import (
	"bufio"
	"errors"
	"strings"

	"github.com/squallhq/squall/protocol"
)

// errLong is a constant value: a package has no variable that could change.
type errLong struct{}

func (errLong) Error() string { return "the line is longer than 1 MiB" }

// line returns data as one line.
func line(data string) string {
	if strings.HasSuffix(data, "\n") {
		return data
	}
	return data + "\n"
}

// readLine reads up to a line feed and returns what came before it. With an error it returns what
// there was.
func readLine(r *bufio.Reader) (string, error) {
	var b strings.Builder
	for {
		part, err := r.ReadSlice('\n')
		b.Write(part)
		switch {
		case err == nil:
			return strings.TrimSuffix(strings.TrimSuffix(b.String(), "\n"), "\r"), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return b.String(), err
		case b.Len() > protocol.BodyLimit:
			return b.String()[:protocol.BodyLimit], errLong{}
		}
	}
}
