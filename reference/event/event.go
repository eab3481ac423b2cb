// Package event tells the rest of the company what happens to names.
//
// The way of an event: a [shard.Store] writes it to its outbox in the transaction that moves the name. A [Relay] copies
// it to the Redis stream of its shard. A [Consumer] of each group hands it to a [Handler]. When every group has
// acknowledged it, and not before, the relay takes it off the outbox and out of the stream.
//
// What may be relied on:
//
//   - Nothing is lost. The outbox is the truth and Redis a copy that may go at any moment, wholly or in part: the relay
//     compares the two all the time and adds again what is missing and not acknowledged.
//   - At least once. A handler may see an event again, after any failure; after the death of a consumer,
//     [ConsumerOptions.Batch] events. It tells by the shard and the id of the event,
//     which are unique together: [Once] does that for effects in a database, [Audit] for its rows.
//   - Order. A group handles the events of one shard one at a time, in the order they were committed where they concern
//     one name, over any number of consumers. The shards run side by side. A repetition may come after later events
//     of its name, a name whose bucket moves to another shard goes on in that shard's order, and entries that a hand took
//     out of a stream come back behind the rest. A consumer that stood still for longer than
//     [ConsumerOptions.ClaimAfter] may still be busy with its event when the next one begins.
//   - Redis stays small. Of each shard it holds only what some group has not acknowledged, [RelayOptions.Window] events
//     at most; the rest waits in the outbox. The price: a group that stands still stops the others when it is that far
//     behind. [Relay.Stats] names it. A group of an instance that is gone does so for [ConsumerOptions.GroupTTL].
//
// A registration waits for none of this and fails with none of it.
package event

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/regpath/diagnose/reference/shard"
)

// Event is one move of a name. Shard and ID identify it.
type Event = shard.Event

// NameClaimed is the Type of the event that gives a name to its first owner.
const NameClaimed = "USERNAME_CLAIMED"

// Handler does what one group has to do about an event. It must return soon after ctx ends, and must bear to be given an
// event again. An error, or a panic, means that it is to be given the event again, up to [ConsumerOptions.Tries] times
// and, when the error comes from [Unavailable], until it works. Nothing else of the shard comes before that.
type Handler func(ctx context.Context, e Event) error

// Why a relay or a consumer failed, in the chain of what its Failed is told.
var (
	// ErrRedis is in the chain of every failure of Redis, whose own error is there too.
	ErrRedis = errors.New("event stream failed")
	// ErrOutbox is in the chain of every failure of a shard, whose own error is there too.
	ErrOutbox = errors.New("outbox failed")
	// ErrPoison is in the chain when an event was given up and put on the dead-letter stream, together with the last error
	// of its handler.
	ErrPoison = errors.New("event given up")
)

// Unavailable marks the error of a handler as one that says nothing about the event: what it needs is away, and the
// event waits for it however long that takes.
func Unavailable(err error) error { return unavailable{err} }

type unavailable struct{ error }

func (u unavailable) Unwrap() error { return u.error }

// wire is an event as other programs may read it. Ids are strings: not every language has integers of 64 bits.
type wire struct {
	ID     int64     `json:"id,string"`
	Shard  string    `json:"shard"`
	Type   string    `json:"type"`
	Name   string    `json:"name"`
	UserID int64     `json:"user_id,string"`
	At     time.Time `json:"at"`
}

func encode(e Event) (string, error) {
	text, err := json.Marshal(wire(e))
	if err != nil {
		return "", fmt.Errorf("encode event %d: %w", e.ID, err)
	}
	return string(text), nil
}

func decode(text string) (Event, error) {
	var w wire
	if err := json.Unmarshal([]byte(text), &w); err != nil {
		return Event{}, fmt.Errorf("decode event: %w", err)
	}
	return Event(w), nil
}
