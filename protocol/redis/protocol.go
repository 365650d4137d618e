// Package redis is the protocol of Redis, RESP2 and RESP3.
package redis

import "github.com/squallhq/squall/protocol"

// Protocol is Redis.
type Protocol struct{}

// Info describes it.
func (Protocol) Info() protocol.Info {
	key := protocol.Param{Name: "key", Type: "bytes", Required: true, Doc: "the key"}
	value := protocol.Param{Name: "value", Type: "bytes", Required: true, Doc: "the value; a dict or list is written as JSON"}
	return protocol.Info{
		Name: "redis",
		Doc: "Redis; each step on a connection of its own, or on the one that connect opened. User and password come from the service's REDIS_USERNAME and " +
			"REDIS_PASSWORD. fields.value is the answer, body is its text, a failure's first word is in fields.code",
		Methods: []protocol.Method{
			{Name: "get", Doc: "GET", Params: []protocol.Param{key}},
			{Name: "set", Doc: "SET", Params: []protocol.Param{key, value}},
			// A word of Starlark, as "del" is, could not stand behind a dot.
			{Name: "delete", Doc: "DEL", Params: []protocol.Param{key}},
			{Name: "ping", Doc: "PING"},
			{Name: "keys", Doc: "KEYS, in alphabetical order", Params: []protocol.Param{{Name: "pattern", Type: "string", Doc: "a glob; \"*\" where it is left out"}}},
			{Name: "lpush", Doc: "LPUSH", Params: []protocol.Param{key, value}},
			{Name: "rpush", Doc: "RPUSH", Params: []protocol.Param{key, value}},
			{Name: "lrange", Doc: "LRANGE", Params: []protocol.Param{
				key,
				{Name: "start", Type: "int", Doc: "the first index; 0 where it is left out"},
				{Name: "stop", Type: "int", Doc: "the last index; -1, the end, where it is left out"},
			}},
			{Name: "incr", Doc: "INCR", Params: []protocol.Param{key}},
			{Name: "command", Doc: "any command", Params: []protocol.Param{
				{Name: "args", Type: "bytes", Required: true, Doc: "the command and its arguments: a list, or a string as typed into redis-cli"},
			}},
			{Name: "connect", Doc: "opens a connection that later steps use, in place of an earlier one"},
			{Name: "close", Doc: "closes the connection that connect opened"},
		},
	}
}
