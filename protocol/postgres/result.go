package postgres

import (
	"encoding/json"
	"strconv"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/squallhq/squall/protocol"
	"github.com/squallhq/squall/spec"
)

// result is what came of statements that were sent together: the last one's rows and tag.
type result struct {
	columns []pgproto3.FieldDescription
	rows    []any
	// size is that of the rows, and cut says that there were more than are kept.
	size int
	cut  bool
	tag  string
	// described says that the statement under way has told its columns.
	described bool
}

// run sends SQL and reads up to the moment when the server is ready again.
func (s *session) run(sql string) (result, error) {
	var got result
	var failure error
	if err := s.reply(&pgproto3.Query{String: sql}); err != nil {
		return got, err
	}
	for {
		m, err := s.wire.Receive()
		switch {
		case err != nil && failure != nil:
			// The server's last words say more than the end that follows.
			return got, failure
		case err != nil:
			return got, err
		}
		switch m := m.(type) {
		case *pgproto3.ErrorResponse:
			if failure == nil {
				failure = said(m)
			}
		case *pgproto3.CopyInResponse:
			if err := s.reply(&pgproto3.CopyFail{Message: "a step sends no data for COPY"}); err != nil {
				return got, err
			}
		case *pgproto3.ReadyForQuery:
			return got, failure
		default:
			got.take(m)
		}
	}
}

func (g *result) take(m pgproto3.BackendMessage) {
	switch m := m.(type) {
	case *pgproto3.RowDescription:
		*g = result{rows: []any{}, described: true}
		for _, f := range m.Fields {
			f.Name = append([]byte(nil), f.Name...)
			g.columns = append(g.columns, f)
		}
	case *pgproto3.DataRow:
		g.add(m)
	case *pgproto3.CommandComplete:
		if !g.described {
			*g = result{}
		}
		g.tag, g.described = string(m.CommandTag), false
	}
}

func (g *result) add(m *pgproto3.DataRow) {
	row := map[string]any{}
	for i, v := range m.Values {
		if i < len(g.columns) {
			g.size += len(v) + len(g.columns[i].Name)
			row[string(g.columns[i].Name)] = value(g.columns[i].DataTypeOID, v)
		}
	}
	g.size++
	if g.size > protocol.BodyLimit {
		g.cut = true
		return
	}
	g.rows = append(g.rows, row)
}

// response tells of the result. The body is the rows as JSON, or the tag where there are none to show.
func (g *result) response(rows bool) spec.Response {
	r := spec.Response{Body: g.tag, Fields: map[string]any{"tag": g.tag}}
	if n, ok := affected(g.tag); ok {
		r.Fields["affected"] = n
	}
	if !rows {
		return r
	}
	r.Fields["rows"] = append([]any{}, g.rows...)
	if g.cut {
		r.Fields["truncated"] = true
	}
	if g.columns != nil {
		// Strings, numbers and what JSON itself was read into can always be written.
		if text, err := json.Marshal(g.rows); err == nil {
			r.Body = string(text)
		}
	}
	return r
}

// The types whose values are not text in a specification; PostgreSQL's pg_type.dat has their numbers.
const (
	oidBool   = 16
	oidInt8   = 20
	oidInt2   = 21
	oidInt4   = 23
	oidOID    = 26
	oidJSON   = 114
	oidFloat4 = 700
	oidFloat8 = 701
	oidJSONB  = 3802
)

// value converts a value from its text. What has no exact counterpart, such as numeric and timestamps, stays text.
func value(oid uint32, v []byte) any {
	if v == nil {
		return nil
	}
	text := string(v)
	switch oid {
	case oidBool:
		return text == "t"
	case oidInt2, oidInt4, oidInt8, oidOID:
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n
		}
	case oidFloat4, oidFloat8:
		// JSON has no way to write what is not a number.
		if f, err := strconv.ParseFloat(text, 64); err == nil && f-f == 0 {
			return f
		}
	case oidJSON, oidJSONB:
		var data any
		if json.Unmarshal(v, &data) == nil {
			return data
		}
	}
	return text
}
