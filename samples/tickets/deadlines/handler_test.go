package handler

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"deadlines/calendar"
)

func TestATriagedTicketIsAnsweredWithItsDeadline(t *testing.T) {
	for priority, due := range map[string]string{"urgent": "2026-11-27T19:30:00Z", "normal": "2026-12-01T15:30:00Z"} {
		answer := httptest.NewRecorder()
		Handle(answer, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(
			`{"id": "t-1", "opened": "2026-11-27T15:30:00Z", "priority": "`+priority+`"}`)))
		if got := answer.Body.String(); answer.Code != http.StatusOK || !strings.Contains(got, due) {
			t.Errorf("%s: answered %d %s, without %s", priority, answer.Code, got, due)
		}
		if got := answer.Header().Get("Ce-Id"); got != "t-1.scheduled" {
			t.Errorf("the reply has the id %q", got)
		}
	}
}

func TestWhatIsNoTicketIsRefused(t *testing.T) {
	for _, data := range []string{"", "null", `"text"`, `{"id": "t-1", "opened": "yesterday"}`} {
		answer := httptest.NewRecorder()
		Handle(answer, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(data)))
		if answer.Code != http.StatusBadRequest || answer.Header().Get("Ce-Id") != "" {
			t.Errorf("%q: answered %d", data, answer.Code)
		}
	}
}

func TestNightsAndWeekendsAreNoWorkingHours(t *testing.T) {
	for from, want := range map[string]string{
		"2026-11-27T08:00:00Z": "2026-11-27T12:00:00Z", // Friday, before nine
		"2026-11-27T14:00:00Z": "2026-11-27T17:00:00Z",
		"2026-11-27T15:00:00Z": "2026-11-30T10:00:00Z",
		"2026-11-28T12:00:00Z": "2026-11-30T12:00:00Z", // Saturday
		"2026-11-29T23:00:00Z": "2026-11-30T12:00:00Z",
	} {
		at, err := time.Parse(time.RFC3339, from)
		if err != nil {
			t.Fatal(err)
		}
		if got := calendar.Add(at, 3).Format(time.RFC3339); got != want {
			t.Errorf("three hours from %s: got %s, want %s", from, got, want)
		}
	}
}
