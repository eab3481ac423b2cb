package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/regpath/diagnose/cmd/shell"
	"github.com/regpath/diagnose/reference/cache"
	"github.com/regpath/diagnose/reference/guard"
	"github.com/regpath/diagnose/reference/local"
)

// The exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // could not start, or stopped serving
	exitUsage  = 2
)

// usageError is a mistake in the flags or the environment.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// run is the program without the process: it serves until ctx ends and returns
// the exit code.
func run(ctx context.Context, args []string, env func(string) (string, bool), stdout, stderr io.Writer) int {
	var f flags
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	out := shell.NewStdout(stdout, stop) // where it serves is told there alone
	cmd := &cobra.Command{
		Use:   "checker",
		Short: "Serve username checks and registrations, to be diagnosed",
		Long: `checker is the reference service of the diagnosis agent: Bloom filter, local
cache, Redis, sharded SQL, with metrics under /metrics and the diagnostic
contract under /debug/diagnose/.

Without flags it runs on an embedded Redis and SQLite. Every flag can also be
given in the environment: CHECKER_LISTEN for --listen, CHECKER_SHARD_DSN, with
spaces between several, for --shard-dsn.

Exit codes: 0 stopped by a signal, or a load came to its end, 1 could not start or
stopped serving, 2 bad usage, 4 stdout cannot be written to, 141 whoever read it has
gone.`,
		Args:          flagsOnly,
		SilenceErrors: true,
		SilenceUsage:  true,
		PreRunE:       func(cmd *cobra.Command, _ []string) error { return fromEnvironment(cmd.Flags(), env) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := f.options(slog.New(slog.NewTextHandler(stderr, nil)))
			if err != nil {
				return usageError{err}
			}
			return serve(cmd.Context(), o, out)
		},
	}
	cmd.SetArgs(args)
	cmd.SetOut(out)
	cmd.SetErr(stderr)
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usageError{shell.BadFlag(cmd, err)} })
	f.register(cmd.Flags())
	cmd.AddCommand(newLoad(out))
	shell.AddHelp(cmd)
	return out.Exit(exitOf(cmd.ExecuteContext(ctx), stderr), cmd.Name(), stderr)
}

// exitOf tells an error to the user and returns the exit code.
func exitOf(err error, stderr io.Writer) int {
	if err == nil {
		return exitOK
	}
	_, _ = fmt.Fprintln(stderr, "checker:", err) // nobody is left to tell
	if usage := (usageError{}); errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailed
}

// flags are the flags as they were given.
type flags struct {
	redis, redisPasswordFile, receiptKeyFile string
	guardSecretFile                          string
	proxies                                  []string
	local.Options
}

func (f *flags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.Listen, "listen", "127.0.0.1:8080", "address to serve HTTP on")
	fs.BoolVar(&f.Real, "real", false, "start a private redis-server and PostgreSQL instead of the embedded ones")
	fs.IntVar(&f.Shards, "shards", 4, "number of private shards")
	fs.IntVar(&f.Names, "names", 20_000, "names that private shards begin with")
	fs.StringVar(&f.redis, "redis", "", "your own Redis: host:port, or a redis:// or rediss:// URL")
	fs.StringVar(&f.redisPasswordFile, "redis-password-file", "", "file that holds the password for --redis")
	fs.StringArrayVar(&f.ShardDSNs, "shard-dsn", nil, "your own PostgreSQL database; once for each shard, always in the same order")
	fs.StringArrayVar(&f.ShardReplicaDSNs, "shard-replica-dsn", nil, "streaming replica of it that look-ups go to; once for each shard, in the same order")
	fs.IntVar(&f.ShardPool, "shard-pool", 8, "connections to each shard")
	fs.Uint64Var(&f.Filter.Capacity, "filter-capacity", 0, "names to size the Bloom filter for (default half as much again as --names, or 1,000,000 with --shard-dsn)")
	fs.Float64Var(&f.Filter.Rate, "filter-target-rate", 0.01, "false-positive rate to size the Bloom filter for")
	fs.StringArrayVar(&f.NamePolicy.Scripts, "name-script", nil, "script whose letters are allowed in names, as Unicode calls it; once for each (default Latin and Han)")
	fs.StringVar(&f.NamePolicy.Punctuation, "name-punctuation", "", "marks allowed in names beside letters and digits (default _.-)")
	fs.BoolVar(&f.NamePolicy.AllowMixed, "name-allow-mixed", false, "allow names in scripts that do not belong together")
	fs.BoolVar(&f.NamePolicy.AllowConfusable, "name-allow-confusable", false, "allow names that look like a plain one and are not, such as admin with a dotless i")
	fs.StringVar(&f.FollowUpURL, "followup-url", "", "service to tell of registrations (default a private one)")
	fs.StringVar(&f.WelcomeURL, "welcome-url", "", "service that welcomes those who registered (default a private one)")
	fs.StringVar(&f.receiptKeyFile, "receipt-key-file", "", "file that holds the key, the same at all instances, with which registrants see their registration at each")
	fs.IntVar(&f.Machine, "machine", 0, "machine number in user ids, 0 to 511, different for each instance")
	fs.BoolVar(&f.LeaseMachine, "lease-machine", false, "take a machine number that is free from Redis, in place of --machine")
	fs.StringVar(&f.Snapshot, "filter-snapshot", "", "file that keeps the Bloom filter between two runs")
	fs.DurationVar(&f.CoolDown, "cool-down", 0, "how long a released name stays nobody's (default 90 days)")
	fs.BoolVar(&f.Guard.On, "guard", false, "limit what one address, and all together, may ask; this machine is trusted")
	fs.BoolVar(&f.Guard.Gate, "gate", false, "let every registration begin with an attempt, and challenge some when many come; needs --guard")
	fs.BoolVar(&f.Guard.Strict, "guard-strict", false, "trust this machine no more than others, and limit the instance")
	fs.StringArrayVar(&f.proxies, "trusted-proxy", nil, "network whose X-Forwarded-For is believed, as 10.0.0.0/8; once for each")
	fs.StringVar(&f.guardSecretFile, "guard-secret-file", "", "file with the secret of challenges, the same on all instances (default one of this instance's own)")
	fs.BoolVar(&f.Faults, "faults", false, "let anybody who reaches the port switch faults under /debug/fault/")
}

// fromEnvironment sets the flags that were not given from CHECKER_….
func fromEnvironment(fs *pflag.FlagSet, env func(string) (string, bool)) error {
	var errs []error
	fs.VisitAll(func(f *pflag.Flag) {
		name := "CHECKER_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value, ok := env(name)
		if !ok || f.Changed || f.Name == "help" {
			return
		}
		values := []string{value}
		if f.Value.Type() == "stringArray" {
			values = strings.Fields(value)
		}
		for _, v := range values {
			if err := fs.Set(f.Name, v); err != nil {
				errs = append(errs, fmt.Errorf("%s: want %s", name, shell.KindOf(f))) // without the value
			}
		}
	})
	if len(errs) > 0 {
		return usageError{errors.Join(errs...)}
	}
	return nil
}

// options checks the flags and reads the files that they name.
func (f *flags) options(logger *slog.Logger) (local.Options, error) {
	o := f.Options
	o.Logger = logger
	if f.redis != "" {
		var err error
		if o.Redis, err = cache.ParseRedis(f.redis); err != nil {
			return o, fmt.Errorf("--redis: %w", err)
		}
	}
	if err := f.addresses(o.Redis.Address); err != nil {
		return o, err
	}
	if info, err := os.Stat(f.Snapshot); f.Snapshot != "" && err == nil && !info.Mode().IsRegular() {
		return o, fmt.Errorf("--filter-snapshot: %s is a folder, a device or the like: want the name of a file", f.Snapshot)
	}
	if folder := filepath.Dir(f.Snapshot); f.Snapshot != "" {
		if _, err := os.Stat(folder); err != nil { // else it came out at the end, with the filter lost
			return o, fmt.Errorf("--filter-snapshot: %w; want a file in a folder that exists", err)
		}
	}
	for _, text := range f.proxies {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return o, fmt.Errorf("--trusted-proxy: want a network such as 10.0.0.0/8, or 10.1.2.3/32 for one address, got %q", text)
		}
		o.Guard.Proxies = append(o.Guard.Proxies, network)
	}
	if f.redisPasswordFile != "" && f.redis == "" {
		return o, errors.New("--redis-password-file needs --redis")
	}
	var errs []error
	secret := func(flag, path string) string {
		if path == "" {
			return ""
		}
		text, err := shell.ReadSecret(path)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", flag, err))
		}
		return text
	}
	if f.redisPasswordFile != "" {
		o.Redis.Password = cache.Secret(secret("--redis-password-file", f.redisPasswordFile))
	}
	o.Guard.Secret = guard.Secret(secret("--guard-secret-file", f.guardSecretFile))
	o.ReceiptKey = cache.Secret(secret("--receipt-key-file", f.receiptKeyFile))
	if err := errors.Join(errs...); err != nil {
		return o, err
	}
	if err := o.Validate(); err != nil {
		return o, err
	}
	return o, nil
}

// serve runs the path until ctx ends, which is no error.
func serve(ctx context.Context, o local.Options, stdout io.Writer) error {
	// The back ends live on while requests are brought to their end; only
	// during the start does the end of ctx end them.
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	started := context.AfterFunc(ctx, cancel)
	p, err := local.Start(life, o)
	if !started() && err == nil {
		return p.Close()
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil // stopped before it was up
		}
		return err
	}
	_, _ = fmt.Fprintln(stdout, describe(p)) // a failure of which ends ctx
	select {
	case <-ctx.Done():
	case <-p.Done():
	}
	return p.Close()
}

// describe says where everything is, without secrets, and how to have it
// diagnosed.
func describe(p *local.Path) string {
	shards := make([]string, 0, p.Service.Shards.Len())
	for _, s := range p.Service.Shards.Stats() {
		if s.Address == "" {
			shards = append(shards, s.Shard+" embedded")
			continue
		}
		shards = append(shards, s.Shard+" "+s.Address)
	}
	line := "checker serves on " + p.URL + ", redis " + p.RedisAddr + ", " + strings.Join(shards, ", ")
	if p.Faults != nil {
		line += ", faults can be switched"
	}
	command := []string{"diagnose run --checker", p.URL, "--redis", p.RedisAddr}
	for _, dsn := range p.ShardDSNs {
		if u, err := url.Parse(dsn); err != nil || u.User == nil {
			continue
		} else if _, secret := u.User.Password(); !secret {
			command = append(command, "--shard-dsn", dsn)
		}
	}
	return line + "\n" + strings.Join(command, " ")
}
