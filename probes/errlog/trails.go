package errlog

import (
	"regexp"
	"strings"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/source"
)

// trails count errors that lead to a cause by themselves, by what their messages
// and codes say, whoever writes them. They are counted one by one: a kind of
// errors leaves out the names that tell them apart.
type trails struct {
	// idConflicts are two rows with one user id. A name that is taken is a
	// conflict as well, but of the key of its own table.
	idConflicts int
	// bypasses are names that a consumer of events saw in a state to which no
	// event led.
	bypasses int
}

// idKey is the constraint that keeps user ids unique, by the names that Postgres
// gives to one of a table of users, as a whole: others, too, have ids of users.
var idKey = regexp.MustCompile(`\b(users_pkey|users_user_id_key)\b`)

// bypass begins what a consumer says of a state to which no event led.
const bypass = "a name's state was changed behind the service"

func (t *trails) count(e source.LoggedError) {
	message := clip(e.Message, maxMessage)
	key := keyOf(e)
	if key.code == "23505" && idKey.MatchString(message) {
		t.idConflicts++
	}
	if key.layer == "event" && strings.HasPrefix(message, bypass) {
		t.bypasses++
	}
}

func (t *trails) record(rec *probes.Recorder) {
	rec.Set("id_conflict_errors", probes.Known(float64(t.idConflicts)))
	rec.Set("bypass_errors", probes.Known(float64(t.bypasses)))
}
