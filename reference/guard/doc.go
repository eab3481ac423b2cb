// Package guard is the layer in front of the caches: it decides which requests
// meet them. It knows nothing of HTTP.
//
// A Tree runs checks in order: parents before children, cheap tiers before dear
// ones, then by their order number. The first verdict other than Pass or Exempt
// ends the request; Exempt skips the descendants of the check. To add a check,
// add a line to the list in New, or to Options.More: no other check and no line
// of the Tree changes, and what does not fit is an error at the start.
//
//	tier    check                   stands in  says                                          cannot decide
//	local   reputation              c a r      banned: refused; trusted: exempt              passes
//	        ├─ check_address        c          60/min per address: limited                   -
//	        ├─ attempt_address        a        30/min per address: limited                   -
//	        └─ register_address         r      10/min per address: limited                   -
//	local   name                    c          100/s per name: the last answer, or limited   -
//	local   captcha                     r      a token that is not solved: challenge         unavailable
//	local   instance                c a r      1000/s over all clients: limited              -
//	remote  ask                       a        one in 11 above 10/s: challenge               Options.GateOnError
//	remote  └ gate, below captcha       r      no marker: refused; unsolved: challenge       Options.GateOnError
//	                                c check, a attempt, r register
//
// What belongs to one client stands before what all share, so that a flood from
// one address or for one name spends its own budget and not the instance's.
// After these the layers behind the guard decide whether the name exists.
//
// Registration takes two requests. Begin opens an attempt: the gate counts it,
// in Redis for all instances together, and leaves a marker for a minute.
// Register consumes the marker, once: a client that skipped the gate has none.
// While Redis does not answer, GateOnError decides: FailOpen, the default, lets
// registrations pass under the limits per address alone; FailClosed stops them.
// A request whose client has hung up never profits from FailOpen.
//
// Limits per address and name are those of one instance: n instances behind a
// balancer allow n times as much. They hold the generic cell rate algorithm, so
// a client may spend a whole minute's budget at once and then gets it back
// evenly; RetryAfter is exact to the nanosecond, and a request that is refused
// costs the client nothing. The instance's own limit counts fixed windows.
// Memory is fixed, and a flood of addresses or names resets nobody's limit: see
// Options.Entries.
package guard
