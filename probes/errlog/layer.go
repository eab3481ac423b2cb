package errlog

import (
	"regexp"
	"strings"

	"github.com/regpath/diagnose/probes/source"
)

// token is the form of a layer or a code; anything else is not one.
var token = regexp.MustCompile(`^[A-Za-z0-9_-]{1,24}$`)

// sqlstate finds the code in messages of Postgres drivers.
var sqlstate = regexp.MustCompile(`SQLSTATE[ =:]+([0-9A-Z]{5})\b`)

// signatures tell the layer from the text, for services that do not name it.
// The first that is contained in the message counts.
var signatures = []struct{ text, layer string }{
	{"redis: connection pool timeout", "redis"},
	{"READONLY You can't write", "redis"},
	{"OOM command not allowed", "redis"},
	{"MISCONF ", "redis"},
	{"LOADING ", "redis"},
	{"CLUSTERDOWN", "redis"},
	{"MOVED ", "redis"},
	{"NOAUTH", "redis"},
	{"WRONGPASS", "redis"},
	{"max number of clients", "redis"},
	{"redis:", "redis"},
	{"non scaling filter is full", "bloom"},
	{"SQLSTATE", "shard"},
	{"too many clients", "shard"},
	{"postgres", "shard"},
	{"pgx", "shard"},
}

// keyOf returns what tells an error from others beside its text.
func keyOf(e source.LoggedError) groupKey {
	key := groupKey{layer: e.Layer, code: e.Code}
	if key.layer == "" {
		for _, s := range signatures {
			if strings.Contains(e.Message, s.text) {
				key.layer = s.layer
				break
			}
		}
	}
	if key.code == "" {
		if m := sqlstate.FindStringSubmatch(e.Message); m != nil {
			key.code = m[1]
		}
	}
	if !token.MatchString(key.layer) {
		key.layer = "unknown"
	}
	if !token.MatchString(key.code) {
		key.code = ""
	}
	return key
}
