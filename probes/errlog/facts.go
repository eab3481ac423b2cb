package errlog

import "github.com/regpath/diagnose/probes"

// facts documents what the probe can return. "Look-back" is the option of that
// name up to now, "baseline" the same length before it.
func facts() []probes.FactDoc {
	return []probes.FactDoc{
		{Name: "errors_rate", Unit: probes.PerSecond, Help: "Errors per second over the look-back, or over the part of it that the service still remembers.", Expected: "<= baseline_rate"},
		{Name: "baseline_rate", Unit: probes.PerSecond, Help: "Errors per second over the baseline."},
		{Name: "errors", Help: "Errors in the look-back; at least, where the service no longer remembers all of it.", Expected: "0"},
		{Name: "groups", Help: "Different kinds of errors in the look-back."},
		{Name: "new_groups", Help: "Kinds that the baseline does not have, or, where the service has lost older entries, cannot have had at this rate; missing when that cannot be told for any.", Expected: "0"},
		{Name: "new_errors", Help: "Errors in the look-back that are of a new kind.", Expected: "0"},
		{Name: "new_errors_share", Unit: probes.Ratio, Help: "new_errors divided by errors; 0 without errors.", Expected: "0"},
		{Name: "redis_errors", Help: "Errors in the look-back whose layer is redis.", Expected: "0"},
		{Name: "shard_errors", Help: "Errors in the look-back whose layer is shard.", Expected: "0"},
		{Name: "other_errors", Help: "Errors in the look-back whose layer is neither redis nor shard nor bloom.", Expected: "0"},
		{Name: "id_conflict_errors", Help: "Errors in the look-back with which a database refused a user id that another row has (SQLSTATE 23505 of users_pkey or users_user_id_key).", Expected: "0"},
		{Name: "bypass_errors", Help: "Errors of the layer event in the look-back with which a consumer tells of a name whose state was changed behind the service.", Expected: "0"},
		{Name: "new_other_errors", Help: "Those of them that are of a new kind.", Expected: "0"},
		{Name: "new_errors_ended", Unit: probes.Bool, Help: "Whether the errors of new kinds have ended: none came for 5 s, in which ten would have come at the rate at which they came.", Expected: "no"},
		{Name: "new_other_errors_ended", Unit: probes.Bool, Help: "The same of those in other layers.", Expected: "no"},
		{Name: "read_only_errors", Help: "Errors in the look-back with which a database refused a write as it is read-only (SQLSTATE 25006).", Expected: "0"},
		{Name: "conflict_errors", Help: "Those that a unique index refused (SQLSTATE 23505): a conflict that was not expected.", Expected: "0"},
		{Name: "slot_errors", Help: "Those with which a database had no slot left for a session (SQLSTATE 53300).", Expected: "0"},
		{Name: "pooler_errors", Help: "Those that a pooler before a database gave (SQLSTATE 08P01): it let a client wait too long.", Expected: "0"},
		{Name: "shard_refusals", Help: "Those of the layer shard with which a server that runs refused a statement or a login (SQLSTATE of class 0A, 22, 25, 26, 28 or 42).", Expected: "0"},
		{Name: "seconds_since_change", Unit: probes.Seconds, Help: "Time since the newest change of build or configuration; missing when there was none."},
		{Name: "seconds_change_to_first_new_error", Unit: probes.Seconds, Help: "Time from the last change before it to the first error of the largest new kind (in other layers, if there is one)."},
		{Name: "change_before_new_errors", Unit: probes.Bool, Help: "Whether a change came at most 10 minutes before the first error of the largest new kind in other layers.", Expected: "no"},
		{Name: "change_tied", Unit: probes.Bool, Help: "Whether these errors name what such a change has changed: its key, the value or the host that it was changed to. Time alone may be chance.", Expected: "no"},
		{Name: "change_of_behaviour", Unit: probes.Bool, Help: "Whether that change is one of code or of its settings (deploy, flag, config), and not one of size or data (scale, data).", Expected: "no"},
		{Name: "seconds_since_recent_change", Unit: probes.Seconds, Help: "Time since the newest change, if that is at most 10 minutes ago."},
	}
}

// changeFacts are those that need the list of changes.
var changeFacts = []string{
	"seconds_since_change", "seconds_since_recent_change", "seconds_change_to_first_new_error",
	"change_before_new_errors", "change_tied", "change_of_behaviour",
}
