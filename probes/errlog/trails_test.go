package errlog

import (
	"testing"
	"time"

	"github.com/regpath/diagnose/probes/probetest"
)

// TestTrails counts what leads to a cause by itself, and nothing that only looks
// like it: a name that is taken is a conflict as well.
func TestTrails(t *testing.T) {
	t.Parallel()
	r := ring{age: time.Hour}
	add := func(n int, layer, code, message string) {
		for i := range n {
			r.entries = append(r.entries, entry{At: now.Add(-30*time.Second + time.Duration(i)*time.Second), Layer: layer, Code: code, Message: message})
		}
	}
	add(4, "shard", "23505", `claim: ERROR: duplicate key value violates unique constraint "users_pkey" (SQLSTATE 23505)`)
	add(3, "shard", "23505", `claim: ERROR: duplicate key value violates unique constraint "names_07_pkey" (SQLSTATE 23505)`)
	add(2, "shard", "40001", `claim: ERROR: could not serialize access to users_pkey`)
	add(5, "event", "", "a name's state was changed behind the service: USERNAME_AVAILABLE follows no event")
	add(3, "shard", "23505", `hold: ERROR: duplicate key value violates unique constraint "mobiles_user_id_key" (SQLSTATE 23505)`)
	add(3, "shard", "23505", `claim: ERROR: duplicate key value violates unique constraint "power_users_pkey" (SQLSTATE 23505)`)
	add(6, "proxy", "", "upstream behind the service mesh reset the connection")
	add(6, "event", "", "a webhook behind the service mesh does not answer")
	ev := check(t, r.doc(), changed())
	probetest.Want(t, ev, "id_conflict_errors", 4)
	probetest.Want(t, ev, "bypass_errors", 5)

	ev = check(t, ring{age: time.Hour}.doc(), changed())
	probetest.Want(t, ev, "id_conflict_errors", 0)
	probetest.Want(t, ev, "bypass_errors", 0)
}
