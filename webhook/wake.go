package webhook

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
)

// wakesHeld is how many wakes wait at most; a queue that is not woken looks by
// itself a second later.
const wakesHeld = 64

// wake tells queues that there is a job for them. It is called after the
// transaction with the job.
func (in *Inbox) wake(queues ...string) {
	for _, queue := range queues {
		select {
		case in.wakes <- queue:
		default: // so many are under way that the queue is not asleep
		}
	}
}

// wakeAll wakes the queues of the work and of all couriers.
func (in *Inbox) wakeAll() {
	in.wake(river.QueueDefault, expressQueue)
	for _, courier := range in.couriers() {
		in.wake(queueOf(courier))
	}
}

// wakingDriver is River's driver, except for how River hears of new jobs: by
// itself it would ask SQLite every 50 ms, over the one connection that writes, or
// hold one more connection to Postgres. Most jobs are worked on by the agent that
// has put them in, which can be told; the others are found by looking.
type wakingDriver struct {
	riverdriver.Driver[*sql.Tx]
	store *store
	wakes <-chan string
	// agent is this one's name on a store that several share.
	agent string
}

// GetExecutor implements riverdriver.Driver.
func (d wakingDriver) GetExecutor() riverdriver.Executor {
	if d.store.shared {
		return owningExecutor{d.Driver.GetExecutor(), d.Driver, d.store, d.agent}
	}
	return joiningExecutor{d.Driver.GetExecutor(), d.Driver, d.store}
}

// SupportsListener implements riverdriver.Driver.
func (wakingDriver) SupportsListener() bool { return true }

// SupportsListenNotify implements riverdriver.Driver: nobody would hear of what
// River writes for listeners.
func (wakingDriver) SupportsListenNotify() bool { return false }

// GetListener implements riverdriver.Driver.
func (d wakingDriver) GetListener(p *riverdriver.GetListenenerParams) riverdriver.Listener {
	return &wakeListener{schema: p.Schema, wakes: d.wakes}
}

// wakeListener hands wakes to River as its notifications of inserted jobs.
type wakeListener struct {
	schema string
	wakes  <-chan string
}

var _ riverdriver.Listener = (*wakeListener)(nil)

// insertTopic is what River calls notifications of inserted jobs.
const insertTopic = "river_insert"

// WaitForNotification implements riverdriver.Listener.
func (l *wakeListener) WaitForNotification(ctx context.Context) (*riverdriver.Notification, error) {
	select {
	case queue := <-l.wakes:
		payload, err := json.Marshal(map[string]string{"queue": queue})
		if err != nil {
			return nil, fmt.Errorf("spell wake: %w", err)
		}
		return &riverdriver.Notification{Topic: insertTopic, Payload: string(payload)}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// The rest of riverdriver.Listener has nothing to do: there is no connection,
// and only one topic matters.

func (l *wakeListener) Close(context.Context) error            { return nil }
func (l *wakeListener) Connect(context.Context) error          { return nil }
func (l *wakeListener) Listen(context.Context, string) error   { return nil }
func (l *wakeListener) Ping(context.Context) error             { return nil }
func (l *wakeListener) Schema() string                         { return l.schema }
func (l *wakeListener) SetAfterConnectExec(string)             {}
func (l *wakeListener) Unlisten(context.Context, string) error { return nil }
