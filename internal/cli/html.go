package cli

import (
	"io"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/internal/report"
)

func html(w io.Writer, r *bundle.Reader) error {
	return report.JSON(w, r.Verdicts())
}
