// Command checker runs the reference service: a username check and sign-up
// service to be diagnosed. By itself it starts on embedded back ends.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/redis/go-redis/v9/logging"

	"github.com/regpath/diagnose/cmd/shell"
)

func main() {
	logging.Disable() // go-redis repeats on stderr what it also returns as an error
	shell.HeedPipe()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends what the first could not
	code := run(ctx, os.Args[1:], os.LookupEnv, os.Stdout, os.Stderr)
	os.Exit(code)
}
