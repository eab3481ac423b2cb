// Package webhook takes Alertmanager's notifications in and keeps every promise
// its answers make: a notification is answered 2xx only after the incident it
// is about and the job that works on it are in the store, in one transaction.
//
// A request passes Handler (who may send, how much), Decode (what it says, as
// leniently as can be), fold (what of it is news) and Inbox.Store (one
// transaction); River then calls the Worker, again and again until it succeeds.
//
// # Identity
//
// An incident is one episode of one group of alerts. The group is known by the
// sender's groupKey or, where there is none, by receiver and group labels or, where
// there are none either, by its alerts; the alerts by their fingerprint. The bytes of the body, externalURL, the exact
// startsAt and the spelling of the receiver differ between the peers of one
// highly available pair and between retries, so they count for nothing.
//
//   - A firing alert opens an incident, or joins the open one of its group.
//   - A firing alert that began before its known end is old news: ignored.
//   - Each alert's own status decides; the message's status is not looked at.
//   - An incident closes when none of its alerts fires and none is hidden, or
//     when the sender says "all alerts resolved". An alert that is missing from
//     a later message is not proven resolved (it may be silenced).
//   - After that, a firing alert that began later opens the incident again, as
//     its next episode; once Options.Reopen is over, it opens another incident.
//   - An incident that nothing is heard of for Options.Silence is stale: it is
//     given up, and opened again by the next word of it.
//
// # Order
//
// Urgent incidents have a queue and workers of their own. News that comes while
// an incident is worked on, however much, leads to one more run.
//
// # Answers
//
//	200  stored, or nothing to do (no alerts, only old news)
//	400  can never be understood: not JSON, not UTF-8, another version, …
//	401  no bearer token      403  a wrong one
//	405  not POST             413  larger than the cap
//	415  not application/json, or compressed
//	503  could not be stored now; Alertmanager repeats it within the same flush
//
// 429 is never used: Alertmanager does not repeat it, nor any other 4xx.
package webhook
