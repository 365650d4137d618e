package postgres_test

import (
	"context"
	"encoding/base64"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/squallhq/squall/protocol/postgres"
	"github.com/squallhq/squall/spec"
)

// TestReady has servers that are up, and are not ready or not to be trusted.
func TestReady(t *testing.T) {
	salt := base64.StdEncoding.EncodeToString([]byte("salt"))
	scram := func(final, rounds string) func(*pgproto3.Backend) {
		return func(b *pgproto3.Backend) {
			b.Send(&pgproto3.AuthenticationSASL{AuthMechanisms: []string{"SCRAM-SHA-256-PLUS", "SCRAM-SHA-256"}})
			_ = b.Flush()
			_ = b.SetAuthType(pgproto3.AuthTypeSASL)
			m, err := b.Receive()
			if err != nil {
				return
			}
			_, nonce, _ := strings.Cut(string(m.(*pgproto3.SASLInitialResponse).Data), "r=")
			b.Send(&pgproto3.AuthenticationSASLContinue{Data: []byte("r=" + nonce + "more,s=" + salt + ",i=" + rounds)})
			_ = b.Flush()
			_ = b.SetAuthType(pgproto3.AuthTypeSASLContinue)
			if _, err := b.Receive(); err != nil {
				return
			}
			b.Send(&pgproto3.AuthenticationSASLFinal{Data: []byte(final)})
			b.Send(&pgproto3.AuthenticationOk{})
			b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
			_ = b.Flush()
			_, _ = b.Receive()
			b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
			_ = b.Flush()
		}
	}
	fatal := func(code, text string) func(*pgproto3.Backend) {
		return func(b *pgproto3.Backend) {
			b.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: code, Message: text})
			_ = b.Flush()
		}
	}
	asks := func(m pgproto3.BackendMessage) func(*pgproto3.Backend) {
		return func(b *pgproto3.Backend) {
			b.Send(m)
			_ = b.Flush()
		}
	}
	for _, tc := range []struct {
		name  string
		serve func(*pgproto3.Backend)
		want  string
	}{
		{"starting", fatal("57P03", "the database system is starting up"), "FATAL: the database system is starting up (SQLSTATE 57P03)"},
		{"an impostor", scram("v="+base64.StdEncoding.EncodeToString(make([]byte, 32)), "4096"), "SCRAM is wrong"},
		{"an impostor without a proof", scram("", "4096"), "SCRAM is wrong"},
		{"endless rounds", scram("", "999999999"), "SCRAM is wrong"},
		{"another mechanism", asks(&pgproto3.AuthenticationSASL{AuthMechanisms: []string{"OTHER"}}), "wants one of OTHER"},
		{"a proof that nobody asked for", asks(&pgproto3.AuthenticationSASLFinal{Data: []byte("v=")}), "SCRAM is wrong"},
		{"GSSAPI", asks(&pgproto3.AuthenticationGSS{}), "GSSAPI"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dial := func(context.Context) (net.Conn, error) {
				here, there := net.Pipe()
				go func() {
					defer func() { _ = there.Close() }()
					b := pgproto3.NewBackend(there, there)
					if _, err := b.ReceiveStartupMessage(); err == nil {
						tc.serve(b)
					}
				}()
				return here, nil
			}
			err := postgres.Protocol{}.Ready(t.Context(), dial, spec.Target{Env: map[string]string{"POSTGRES_PASSWORD": "x"}})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}
