package main

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/spf13/pflag"
)

// targetFlags give a target without a configuration. No secret is among them, only
// files that hold one: other users of the machine can read a command line.
type targetFlags struct {
	checker, checkerToken               string
	redis, redisUsername, redisPassword string
	redisTLS                            bool
	shards, shardFiles, pgbouncerFiles  []string
	all                                 *pflag.FlagSet
}

func (f *targetFlags) register(fs *pflag.FlagSet) {
	f.all = pflag.NewFlagSet("target", pflag.ContinueOnError)
	f.all.StringVar(&f.checker, "checker", "", "base URL of the service, without a configuration")
	f.all.StringVar(&f.checkerToken, "checker-token-file", "", "file that holds the bearer token of the service")
	f.all.StringVar(&f.redis, "redis", "", "host:port of its Redis")
	f.all.StringVar(&f.redisUsername, "redis-username", "", "user of its Redis, with --redis-password-file")
	f.all.StringVar(&f.redisPassword, "redis-password-file", "", "file that holds the password of its Redis")
	f.all.BoolVar(&f.redisTLS, "redis-tls", false, "reach its Redis by TLS")
	f.all.StringArrayVar(&f.shards, "shard-dsn", nil, "DSN of a shard, where it holds no password; once for each shard, in order")
	f.all.StringArrayVar(&f.shardFiles, "shard-dsn-file", nil, "file that holds the DSN of a shard; once for each shard, in order")
	f.all.StringArrayVar(&f.pgbouncerFiles, "pgbouncer-dsn-file", nil, "file that holds the DSN of the admin console of a PgBouncer; may be repeated")
	fs.AddFlagSet(f.all)
}

// given names the flags that were given.
func (f *targetFlags) given() (names []string) {
	f.all.VisitAll(func(flag *pflag.Flag) {
		if flag.Changed {
			names = append(names, "--"+flag.Name)
		}
	})
	return names
}

// target makes a target of the flags, or says all that is wrong with them.
func (f *targetFlags) target() (targetConfig, error) {
	var errs []error
	read := func(flag, path string) secret {
		s, err := secretFile(path)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", flag, err))
		}
		return s
	}
	t := targetConfig{
		Name:    "registration",
		Checker: checkerConfig{URL: f.checker, Token: read("--checker-token-file", f.checkerToken)},
		Redis:   redisConfig{Address: f.redis, Username: f.redisUsername, Password: read("--redis-password-file", f.redisPassword), TLS: f.redisTLS},
	}
	flags := map[string]string{"checker.url": "--checker", "redis.address": "--redis", "redis.password": "--redis-password-file"}
	add := func(list string, all *[]shardConfig, name, flag string, dsn secret) {
		flags[at(list, len(*all))+".dsn"] = flag
		*all = append(*all, shardConfig{Name: fmt.Sprintf("%s%d", name, len(*all)), DSN: dsn})
	}
	for _, dsn := range f.shards {
		add("shards", &t.Shards, "shard", fmt.Sprintf("--shard-dsn of shard%d", len(t.Shards)), plainSecret(dsn))
	}
	for _, path := range f.shardFiles {
		add("shards", &t.Shards, "shard", "--shard-dsn-file "+path, read("--shard-dsn-file", path))
	}
	for _, path := range f.pgbouncerFiles {
		add("pgbouncers", &t.PgBouncers, "pgbouncer", "--pgbouncer-dsn-file "+path, read("--pgbouncer-dsn-file", path))
	}
	if len(errs) == 0 { // else what was not read would be missing
		words := map[string]string{ // in place of those that name fields of a configuration
			"checker.url":   "http://host:port; a bearer token goes into the file of --checker-token-file",
			"redis.address": "host:port; --redis-username, --redis-password-file and --redis-tls have the rest",
		}
		bad := func(path, problem, expected string, _ ...string) {
			expected = cmp.Or(words[path], expected)
			errs = append(errs, errors.New(asText(cmp.Or(flags[path], path), problem, expected)))
		}
		t.check(bad)
		judge(t.secrets(), bad)
	}
	return t, errors.Join(errs...)
}
