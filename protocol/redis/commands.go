package redis

import (
	"slices"
	"strings"
)

// traits are what has to be known of a command beside its name.
type traits struct {
	// key is where the first key or channel stands, 0 for nowhere.
	key int
	// count is where the number of keys stands, for commands that may have none.
	count int
	// login belongs to the connection itself: rules never match it.
	login bool
	// waits says that the command waits for others to act.
	waits bool
	// subscribes are answered by a confirmation for each channel, all by one for each channel that there is.
	subscribes, all bool
}

// known returns the traits of a command; what is not in the table has its key in the first place.
func known(command string) traits {
	t, found := table()[command]
	if !found {
		t.key = 1
	}
	return t
}

func table() map[string]traits {
	all := map[string]traits{
		"AUTH": {login: true}, "HELLO": {login: true}, "CLIENT": {login: true}, "SELECT": {login: true}, "QUIT": {login: true},
		"RESET": {login: true}, "READONLY": {login: true}, "READWRITE": {login: true}, "ASKING": {login: true}, "MONITOR": {login: true},
		"SUBSCRIBE": {key: 1, subscribes: true}, "PSUBSCRIBE": {key: 1, subscribes: true}, "SSUBSCRIBE": {key: 1, subscribes: true},
		"UNSUBSCRIBE": {key: 1, subscribes: true, all: true}, "PUNSUBSCRIBE": {key: 1, subscribes: true, all: true},
		"SUNSUBSCRIBE": {key: 1, subscribes: true, all: true},
		"OBJECT":       {key: 2}, "MEMORY": {key: 2}, "XINFO": {key: 2}, "XGROUP": {key: 2}, "BITOP": {key: 2}, "MIGRATE": {key: 3},
		"EVAL": {key: 3, count: 2}, "EVALSHA": {key: 3, count: 2}, "EVAL_RO": {key: 3, count: 2}, "EVALSHA_RO": {key: 3, count: 2},
		"FCALL": {key: 3, count: 2}, "FCALL_RO": {key: 3, count: 2},
		"ZUNION": {key: 2}, "ZINTER": {key: 2}, "ZDIFF": {key: 2}, "ZINTERCARD": {key: 2}, "SINTERCARD": {key: 2}, "LMPOP": {key: 2}, "ZMPOP": {key: 2},
		"BLMPOP": {key: 3, waits: true}, "BZMPOP": {key: 3, waits: true}, "BLPOP": {key: 1, waits: true}, "BRPOP": {key: 1, waits: true},
		"BLMOVE": {key: 1, waits: true}, "BRPOPLPUSH": {key: 1, waits: true}, "BZPOPMIN": {key: 1, waits: true}, "BZPOPMAX": {key: 1, waits: true},
		"WAIT": {waits: true}, "WAITAOF": {waits: true},
	}
	for _, name := range strings.Fields("PING ECHO CONFIG INFO COMMAND DBSIZE FLUSHALL FLUSHDB KEYS SCAN RANDOMKEY TIME SAVE BGSAVE BGREWRITEAOF LASTSAVE " +
		"MULTI EXEC DISCARD UNWATCH SCRIPT FUNCTION ACL CLUSTER LATENCY MODULE ROLE SLOWLOG SWAPDB SHUTDOWN REPLICAOF SLAVEOF DEBUG FAILOVER LOLWUT PUBSUB " +
		"PSYNC SYNC REPLCONF") {
		all[name] = traits{}
	}
	return all
}

// keyOf returns a command's first key or channel, or "".
func keyOf(items []string) string {
	command := strings.ToUpper(items[0])
	t := known(command)
	at := t.key
	switch {
	case command == "XREAD" || command == "XREADGROUP":
		at = 1 + slices.IndexFunc(items, func(s string) bool { return strings.EqualFold(s, "STREAMS") })
	case t.count > 0 && (t.count >= len(items) || items[t.count] == "0"):
		return ""
	}
	if at == 0 || at >= len(items) {
		return ""
	}
	return items[at]
}

// blocks says whether a command waits for others to act.
func blocks(items []string) bool {
	command := strings.ToUpper(items[0])
	if strings.HasPrefix(command, "XREAD") {
		return slices.ContainsFunc(items, func(s string) bool { return strings.EqualFold(s, "BLOCK") })
	}
	return known(command).waits
}
