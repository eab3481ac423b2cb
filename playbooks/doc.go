// Package playbooks is the domain: a [Playbook] says which probes to run and
// how to judge what they saw, the [Runner] runs it, [Judge] works out the root
// cause, and a [Report] is the outcome.
//
// # Conditions
//
// Conditions are CEL over facts named <step>.<fact>, all of them double
// precision: bloom.fill_ratio > 0.5. A whole number in a condition is read as
// a double, so 2 * redis.pool_size means what it says. Dividing by a fact is
// refused at load, as zero by zero is not a number: write a > 0.5 * b. A fact
// that was not measured, or that is NaN or infinite, is a CEL unknown: the
// condition is then open unless the facts that are known decide it alone
// (false && unknown is false). Not known is not zero, not false, not fine.
//
// # Status of a step
//
// The rules of a step are tried in order and the first that holds gives the
// status. A rule whose condition is open stands between: it might have been
// the first to hold. The status is therefore reported only if that would not
// have made it milder, and ok only if it would not have made it worse:
//
//	first rule that holds   open rules before it            status
//	ok                      none, or only ok                ok
//	ok                      any warning or critical         unknown
//	warning                 none, or only warning, critical warning
//	critical                none, or only critical          critical
//	warning, critical       any milder                      unknown
//	none                    any                             unknown
//
// # Facts that are not known
//
// A fact is not known in one of three ways, and the probe says in which:
//
//	unread  it was to be had, and was not read: a timeout, a refused connection,
//	        an answer of another form; whatever the probe is silent about
//	absent  it is not to be had here: an embedded Redis has no maxclients, the
//	        agent's role lacks a right, nothing is configured to be asked, or too
//	        little has happened to tell
//	moot    there is nothing to measure, as for the mean of waits when nobody has
//	        waited; that is an answer, and no gap
//
// All three are unknown to a condition. One that must not stay open for want of a
// fact that is absent says so: known(redis.clients_ratio) && redis.clients_ratio >
// 0.8 is false where the server does not offer the ratio, and open where the ratio
// was not read. So a service is called healthy by what its back ends offer, and
// never for want of looking. What is unknown is named as a gap all the same.
//
// measured(redis.ping_max_seconds) is false both ways, and so always decided. As it
// is false where reading failed it may not judge: only limits and remarks may ask it.
//
// A layer of which nothing is there has a rule with the status not-looked-at; it
// neither passes for well nor keeps a service from being called healthy:
//
//   - {status: not-looked-at, when: postgres.shards_configured == 0, summary: …}
//
// # Causes
//
// A cause is matched when every "when" holds and no "against" does, refuted
// when a "when" fails or an "against" holds, and undecided otherwise. A cause
// with an open "when" is never reported as a cause: it is a gap.
//
// Only what was measured refutes. A "when" that is decided by absent facts alone,
// whatever the others are, leaves the cause not judged unless something else
// refutes it: that is a gap too, but none that keeps a service from being healthy.
// Nor does such a condition speak for a cause or against it: it counts as unknown.
//
// A matched cause that another matched cause explains is a consequence. One
// that no matched cause explains is a root, unless an undecided cause would
// explain it: then it is listed, at confidence low, but it proves nothing. What
// explains it only under a condition does not where that is known not to hold:
//
//	explains: [redis-pool-too-small, {cause: shard-down, when: shards.unreachable == 0}]
//
// A cause that would be low even if all that was not measured spoke for it
// explains none that is surer: both stand beside each other.
//
// # Parts
//
// A long playbook is written in several files. Its head has the name and says
// which files, in its folder or below, hold steps, causes, healthy and remarks:
//
//	parts: [registration-path/bloom.yaml, registration-path/redis.yaml]
//
// # Words
//
// A condition may have words for a human, a sentence with facts in braces, which
// the report then says in its place; the condition stays beside it:
//
//	rules:
//	  - {status: critical, when: redis.hung == 1, because: no PING is answered, summary: …}
//	causes:
//	  - when:
//	      - {when: redis.reachable == 0, else: "Redis answers in {redis.ping_seconds}"}
//	    against:
//	      - {when: redis.error_ratio < 0.1, because: Redis answers the service}
//
// Of a cause that is ruled out the first sign that is absent is told; if all its
// signs are there, what speaks against it.
//
// A sentence may also name the first row of a table, as {shards/failing}: its key,
// cut to 60 characters. A stretch in square brackets is left out while a fact in it
// is unknown or a table has no row, and so is an action that is all in brackets:
//
//	headline: "Shard {shards/failing} is down" # in place of the title, if it is known
//	summary: "[Shard {shards/failing} is down: ]its names cannot be checked."
//	actions:
//	  - "[Roll back the change of {errors/changes}.]"
//	  - Look at the server.
//
// Two words after a fact that may be negative stand for its sign: "the clock is
// {clock.offset_seconds ahead of|behind} the agent's". A sentence has at most 2,000
// characters.
//
// # Confidence
//
// A is the weight of the signals that hold and of the "against" that fail
// (each weighs 1), D that of the signals that fail, U that of the signals and
// "against" that are open; score = (A − D) / (A + D + U).
//
//	confidence  score         and
//	high        at least 0.75 D = 0 and no undecided cause would explain it
//	medium      at least 0.4  no undecided cause would explain it
//	low         otherwise
//
// Unknown signals thus lower it, and a single signal that disagrees excludes
// high. A cause without signals and "against" rests on its "when" alone and is
// medium.
//
// A cause may have limits: its confidence is at most so much unless a condition
// holds, and an open one does not hold:
//
//	limits:
//	  - {at_most: medium, unless: errors.change_tied == 1, because: only time ties them}
//
// A cause that a limit holds down to low is a note when another root is found that
// is none: it is reported, but it is no root.
//
// # Onset
//
// Where a [Recorder] runs, a fact that moved says since when, and from what to what.
// A cause began when the first of its evidence moved. Of causes as sure as each other
// the one that began first stands first, and one of which no beginning is known last.
// That is all: neither makes an onset a cause, nor does it change how sure one is.
//
// The evidence of a cause is what holds: of alternatives, a || b, only those that
// do.
//
// # Verdict
//
// Cause-found: there is a root that is not in doubt. Healthy: every step was
// measured and is ok, or was not to be looked at, no cause is matched and none is undecided, and every vital
// sign of the playbook is there. Everything else is inconclusive. Taking a measurement away can therefore never make a
// report healthy. A playbook is written so that health can be told from what
// every back end offers: a rule or a cause that rests on a fact which may be
// missing asks known, or names as "against" what refutes it without that fact.
//
// Vital signs are conditions without which nothing can be judged, such as traffic;
// remarks are said at the end of a summary that is not healthy:
//
//	healthy:
//	  - {when: shards.requests_rate >= 1, because: "Almost no traffic ({shards.requests_rate})."}
//	remarks:
//	  - {when: redis.uptime_seconds < 60, say: "Redis was started {redis.uptime_seconds} ago."}
//
// # Unit tests
//
// A playbook's unit tests stand beside it in <name>_test.yaml (see [LoadSuite]):
//
//	playbook: registration-path.yaml # beside this file
//	base:                            # what every test starts from; optional
//	  redis: {reachable: true, ping_seconds: 0.0001}
//	tests:
//	  - name: a server that is slow
//	    recording: slow.json         # instead of the base: a recorded report
//	    evidence:                    # laid over base or recording
//	      redis: {ping_seconds: 0.3, hit_ratio: unknown, pool_wait_seconds: moot, maxclients: absent}
//	      shards: {error: timeout}   # the step could not be measured
//	    expect:                      # only what is named is looked at
//	      verdict: inconclusive
//	      causes: []                 # all matched causes, in order
//	      roots: []
//	      confidence: {redis-down: high}
//	      ruled_out: [redis-down]    # among others
//	      gaps: ["shards: timeout"]  # part of a gap
//	      status: {redis: warning}
//
// # Recordings
//
// A report holds what it was judged from, whole, and so it is a recording:
// [Replay] judges it again, by the playbook that made it to the same bytes, by
// another one to see what that would have said. Steps and facts that the other
// playbook does not know are named as gaps.
package playbooks
