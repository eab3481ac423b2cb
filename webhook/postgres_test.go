package webhook

import (
	"crypto/rand"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/regpath/diagnose/probes/probetest"
)

// newStore is where a test has a store of its own: a file or, below
// TestOnPostgres, a schema.
func newStore(t testing.TB) string {
	t.Helper()
	parent, _, _ := strings.Cut(t.Name(), "/")
	if s, ok := servers.Load(parent); ok {
		return fmt.Sprintf("%s?sslmode=disable&search_path=t%s", s, strings.ToLower(rand.Text()))
	}
	return filepath.Join(t.TempDir(), "store.db")
}

// servers holds the URL of a Postgres for the tests whose name begins with the key.
var servers sync.Map

// startPostgres has newStore give schemas of one server to the tests below t.
func startPostgres(t *testing.T) {
	t.Helper()
	s := probetest.Postgres(t)
	url := "postgres://postgres:" + canary + "@" + s.Addr + "/postgres"
	db, err := readPostgres(url)
	if err != nil {
		t.Fatal(err)
	}
	probetest.Eventually(t, "the server is up", func() bool { return db.PingContext(t.Context()) == nil })
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	servers.Store(t.Name(), url)
}

// canary is the password in the URL of every store: the server asks for none, and
// nobody may see it.
const canary = "hunter2canary"

// TestOnPostgres runs on Postgres what must be the same as on SQLite, and what
// agents that share it must do.
func TestOnPostgres(t *testing.T) {
	t.Parallel()
	startPostgres(t)
	for name, test := range map[string]func(*testing.T){
		"R":                       TestR,
		"DeadCourierDelaysNobody": TestDeadCourierDelaysNobody,
		"NewsDuringDelivery":      TestNewsDuringDelivery,
		"Undeliverable":           TestUndeliverable,
		"DeliveryIsRepeated":      TestDeliveryIsRepeated,
		"Send":                    TestSend,
		"Killed":                  TestKilled,
		"Episodes":                TestEpisodes,
		"Stale":                   TestStale,
		"ChangeWithdrawn":         TestChangeWithdrawn,
		"Behind":                  TestBehind,
		"GroupMoves":              TestGroupMoves,
		"GroupLife":               TestGroupLife,
		"Unnamed":                 TestUnnamed,
		"UrgentFirst":             TestUrgentFirst,
		"Storm":                   TestStorm,
		"Bounds":                  TestBounds,
		"NewsWhileRunning":        TestNewsWhileRunning,
		"NoNewsIsLost":            TestNoNewsIsLost,
		"ParallelPosts":           TestParallelPosts,
		"Retry":                   TestRetry,
		"StopHandsBack":           TestStopHandsBack,
		"StopWaits":               TestStopWaits,
		"Memo":                    TestMemo,
		"Prune":                   TestPrune,
		"GivenUp":                 TestGivenUp,
		"List":                    TestList,
		"ChangesShareAFate":       TestChangesShareAFate,
		"ManyGivenUp":             TestManyGivenUp,
		"Followers":               TestFollowers,
		"Backlog":                 TestBacklog,
		"BacklogGivenUp":          TestBacklogGivenUp,
		"DearChanges":             TestDearChanges,
		"Unreceived":              TestUnreceived,
		"EndedUnheard":            TestEndedUnheard,
		"Watchdog":                TestWatchdog,
		// And what only several agents can do.
		"one incident, one run, one message": testOneOfEach,
		"a dead agent is replaced":           testReplaced,
		"an agent that hangs loses its jobs": testHanging,
		"a job that was taken away is left":  testTakenAway,
		"no secret is seen":                  testNoSecret,
		"hostile text":                       testHostileText,
	} {
		t.Run(name, test)
	}
}
