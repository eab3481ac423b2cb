package source

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// CheckURL says what is wrong with the base URL of an HTTP service. Like all
// errors of this file it quotes nothing that may be a secret.
func CheckURL(raw string) error {
	_, err := parseURL(raw)
	return err
}

// CheckEndpoint is CheckURL for a URL that is secret itself: it may hold credentials
// and a query.
func CheckEndpoint(raw string) error {
	if u, err := url.Parse(strings.TrimSpace(raw)); err == nil {
		u.User, u.RawQuery = nil, ""
		raw = u.String()
	}
	return CheckURL(raw)
}

func parseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case raw == "":
		return nil, errors.New("is needed")
	case err != nil || u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("is no URL that begins with http:// or https://")
	case u.User != nil:
		return nil, errors.New("holds credentials, and a URL is not kept secret")
	case u.Hostname() == "":
		return nil, errors.New("names no host")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("has a query or a fragment, which a base URL must not have")
	case u.Port() != "":
		if err := checkPort(u.Port()); err != nil {
			return nil, err
		}
	}
	return u, nil
}

// CheckAddress says what is wrong with a host:port.
func CheckAddress(address string) error {
	port, err := portOf(address)
	if err != nil {
		return err
	}
	return checkPort(port)
}

// CheckListen says what is wrong with the host:port of a server of this process. As
// [net.Listen] has it, port 0 is any that is free, and a service such as http has a port.
func CheckListen(address string) error {
	port, err := portOf(address)
	if err != nil {
		return err
	}
	if _, err := net.DefaultResolver.LookupPort(context.Background(), "tcp", port); err == nil && port != "" {
		return nil
	}
	return checkPort(port)
}

func portOf(address string) (string, error) {
	_, port, err := net.SplitHostPort(address)
	switch {
	case strings.Contains(address, "@") || strings.Contains(address, "://"):
		return "", errors.New("is not host:port alone: a password and the like go elsewhere")
	case err != nil:
		return "", errors.New("is not host:port")
	}
	return port, nil
}

// CheckDSN says what is wrong with the connection string of a Postgres or PgBouncer.
func CheckDSN(dsn string) error {
	_, err := parseDSN(dsn)
	return err
}

func parseDSN(dsn string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(dsn)
	switch {
	case err == nil:
		return config, nil
	case strings.Contains(err.Error(), "invalid port"): // the driver tells it by its text only
		return nil, errors.New("the port is not a number from 1 to 65535 (in a password @ : / are written %40 %3A %2F)")
	}
	return nil, errors.New("cannot be read as a connection string") // the driver's own text quotes parts of it
}

// checkPort quotes a port that is a number; anything else may be a password.
func checkPort(port string) error {
	number, err := strconv.ParseUint(port, 10, 16)
	switch {
	case err == nil && number > 0:
		return nil
	case strings.Trim(port, "0123456789") == "" && port != "":
		return fmt.Errorf("the port %s is not between 1 and 65535", port)
	}
	return errors.New("the port is not a number from 1 to 65535")
}
