package webhook

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/regpath/diagnose/playbooks"
)

// childEnv makes the test binary an agent that waits to be killed: its value is
// the path of the store.
const childEnv = "WEBHOOK_TEST_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		if err := child(path, os.Getenv(childEnv+"_WORKS") != ""); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1) // it is killed, it never ends well
	}
	os.Exit(m.Run())
}

// child is an agent with a store at path. It prints its address, then "working"
// when a call of Work has left its mark, and never finishes one.
func child(path string, works bool) error {
	ctx := context.Background()
	signal.Ignore(syscall.SIGXFSZ) // a full disk sends none, a limit on files does
	in, err := Open(ctx, path, Options{Now: noon, Worker: &fakeWorker{do: func(ctx context.Context, _ playbooks.Incident, memo Memo) error {
		if err := memo.Put(ctx, "mark", []byte("posted")); err != nil {
			return err
		}
		fmt.Println("working")
		select {}
	}}})
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	if works {
		if err := in.Start(ctx); err != nil {
			return err
		}
	}
	srv := &http.Server{Handler: newHandler(in), ReadHeaderTimeout: 10 * time.Second}
	// Should the parent die first.
	time.AfterFunc(2*time.Minute, func() { os.Exit(1) })
	return srv.Serve(l)
}
