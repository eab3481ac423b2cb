package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// client speaks to checkers as a browser would.
type client struct{ http http.Client }

func newClient(connections int) *client {
	return &client{http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		MaxIdleConnsPerHost: connections, IdleConnTimeout: time.Minute,
	}}}
}

func (c *client) close() { c.http.CloseIdleConnections() }

// registered is what a user was told.
type registered struct {
	taken  bool // by somebody else; nothing else is known then
	userID string
	// shown is what the answer asked to be shown with the next checks, so that the user sees his own registration.
	shown http.Header
}

// register asks for the name. Any answer but "yours" and "taken" is an error.
func (c *client) register(ctx context.Context, base, name string) (registered, error) {
	body, err := json.Marshal(map[string]string{"name": name})
	if err != nil {
		return registered{}, fmt.Errorf("encode: %w", err)
	}
	var doc struct {
		UserID string `json:"user_id"`
	}
	code, header, err := c.send(ctx, http.MethodPost, base+"/v1/register", body, nil, &doc)
	switch {
	case err != nil:
		return registered{}, err
	case code == http.StatusConflict:
		return registered{taken: true}, nil
	case code != http.StatusCreated:
		return registered{}, fmt.Errorf("register: status %d", code)
	}
	r := registered{userID: doc.UserID, shown: http.Header{}}
	for key, values := range header {
		if strings.Contains(key, "Receipt") {
			r.shown[key] = values
		}
	}
	return r, nil
}

// check asks whether the name is available, showing what the user was given.
func (c *client) check(ctx context.Context, base, name string, r registered) (available bool, err error) {
	var doc struct {
		Available bool `json:"available"`
	}
	code, _, err := c.send(ctx, http.MethodGet, base+"/v1/check?name="+url.QueryEscape(name), nil, r.shown, &doc)
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("check: status %d", code)
	}
	return doc.Available, err
}

// missing asks the filter of an instance which of the names it lacks.
func (c *client) missing(ctx context.Context, base string, names []string) (int, error) {
	body, err := json.Marshal(map[string][]string{"names": names})
	if err != nil {
		return 0, fmt.Errorf("encode: %w", err)
	}
	var doc struct {
		Distinct int   `json:"distinct"`
		Maybe    []int `json:"maybe"`
	}
	code, _, err := c.send(ctx, http.MethodPost, base+"/debug/diagnose/bloom/test", body, nil, &doc)
	switch {
	case err != nil:
		return 0, err
	case code != http.StatusOK || doc.Distinct != len(names):
		return 0, fmt.Errorf("test of %d names: status %d, %d tested", len(names), code, doc.Distinct)
	}
	return len(names) - len(doc.Maybe), nil
}

// send makes a request and decodes the answer, if it is 2xx, into doc, unless
// that is nil.
func (c *client) send(ctx context.Context, method, to string, body []byte, header http.Header, doc any) (int, http.Header, error) {
	code, answered, text, err := c.do(ctx, method, to, body, header)
	if err == nil && code < 300 && doc != nil {
		if err = json.Unmarshal(text, doc); err != nil {
			err = fmt.Errorf("decode answer: %w", err)
		}
	}
	return code, answered, err
}

func (c *client) do(ctx context.Context, method, to string, body []byte, header http.Header) (int, http.Header, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, to, bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil, fmt.Errorf("build request: %w", err)
	}
	maps.Copy(req.Header, header)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.http.Do(req)
	if err != nil {
		return 0, nil, nil, err
	}
	defer res.Body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(res.Body, 4<<20))
	if err != nil {
		return 0, nil, nil, fmt.Errorf("read answer: %w", err)
	}
	return res.StatusCode, res.Header, text, nil
}
