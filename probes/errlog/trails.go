package errlog

import (
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

func (t *trails) count(e source.LoggedError) {
	message := clip(e.Message, maxMessage)
	if keyOf(e).code == "23505" && (strings.Contains(message, "users_pkey") || strings.Contains(message, "user_id")) {
		t.idConflicts++
	}
	if strings.Contains(message, "behind the service") {
		t.bypasses++
	}
}

func (t *trails) record(rec *probes.Recorder) {
	rec.Set("id_conflict_errors", probes.Known(float64(t.idConflicts)))
	rec.Set("bypass_errors", probes.Known(float64(t.bypasses)))
}
