// Package postgres is the protocol of PostgreSQL, version 3, without encryption.
package postgres

import "github.com/squallhq/squall/protocol"

// Protocol is PostgreSQL.
type Protocol struct{}

// Info describes it.
func (Protocol) Info() protocol.Info {
	sql := protocol.Param{Name: "sql", Type: "string", Required: true, Doc: "SQL without parameters"}
	return protocol.Info{
		Name: "postgres",
		Doc: "PostgreSQL; each step on a connection of its own, or on the one that connect opened. User, password and database come from the service's " +
			"POSTGRES_USER, POSTGRES_PASSWORD and POSTGRES_DB, or PGUSER, PGPASSWORD and PGDATABASE; without them they are postgres, none, and the user's",
		Methods: []protocol.Method{
			{Name: "query", Doc: "runs SQL; fields.rows are the last result's rows as dicts; a failure's SQLSTATE is in fields.code", Params: []protocol.Param{sql}},
			{Name: "exec", Doc: "runs SQL and leaves rows out; fields.affected counts those that the last statement changed", Params: []protocol.Param{sql}},
			{Name: "connect", Doc: "opens a connection that later steps use, in place of an earlier one"},
			{Name: "close", Doc: "closes the connection that connect opened"},
		},
	}
}
