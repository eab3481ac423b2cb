package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/regpath/diagnose/reference/local"
)

// TestMoves leads a name through its life over HTTP.
func TestMoves(t *testing.T) {
	t.Parallel()
	p := start(t, local.Options{})
	owner, _ := document(t, http.MethodPost, p.URL+"/v1/register", `{"name":"some_one"}`)["user_id"].(string)
	f := func(method, path string, want int, text string) {
		t.Helper()
		if code, b := send(t, method, p.URL+path, "", ""); code != want || !strings.Contains(string(b), text) {
			t.Errorf("%s %s = %d %s, want %d with %q", method, path, code, b, want, text)
		}
	}
	lock, release := http.MethodPost, http.MethodDelete
	f(lock, "/v1/names/some_one/lock", http.StatusBadRequest, "user_id")
	f(lock, "/v1/names/some_one/lock?user_id=x", http.StatusBadRequest, "user_id")
	f(lock, "/v1/names/a%20b/lock?user_id=1", http.StatusBadRequest, "U+0020")
	f(lock, "/v1/names/some_one/lock?user_id=1", http.StatusForbidden, "somebody else")
	f(lock, "/v1/names/nobody/lock?user_id=1", http.StatusNotFound, "no owner")
	f(lock, "/v1/names/Some_One/lock?user_id="+owner, http.StatusOK, `"state":"LOCKED"`)
	f(release, "/v1/names/some_one?user_id=1", http.StatusForbidden, "somebody else")
	f(release, "/v1/names/some_one?user_id="+owner, http.StatusOK, `{"name":"some_one","state":"RELEASED"}`)
	f(release, "/v1/names/some_one?user_id="+owner, http.StatusOK, "RELEASED")
	f(lock, "/v1/names/some_one/lock?user_id="+owner, http.StatusConflict, "never goes from RELEASED")
}

// TestMobile gives a mobile number to one user only.
func TestMobile(t *testing.T) {
	t.Parallel()
	p := start(t, local.Options{})
	f := func(name, mobile string, want int, text string) {
		t.Helper()
		code, b := send(t, http.MethodPost, p.URL+"/v1/register", "application/json", `{"name":"`+name+`","mobile":"`+mobile+`"}`)
		if code != want || !strings.Contains(string(b), text) {
			t.Errorf("register %s with %q = %d %s, want %d with %q", name, mobile, code, b, want, text)
		}
	}
	for _, bad := range []string{"+", "4917012345678", "+1234567", "+1234567890123456", "+49 170 1234", "+４９１７０１２３４"} {
		f("first", bad, http.StatusBadRequest, "mobile number must be")
	}
	f("first", "+4917012345678", http.StatusCreated, "first")
	f("second", "+4917012345678", http.StatusConflict, "mobile number is taken")
	f("first", "+4917012345679", http.StatusConflict, "name is taken")
	f("second", "+4917012345679", http.StatusCreated, "second") // let go by the one who lost
}
