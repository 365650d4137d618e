package postgres

import (
	"crypto/hmac"
	"crypto/md5" //nolint:gosec // The protocol's own.
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"
)

// login says who the client is and proves it.
func (s *session) login(who account) error {
	s.wire.Send(&pgproto3.StartupMessage{
		ProtocolVersion: pgproto3.ProtocolVersion30,
		Parameters: map[string]string{
			"user": who.user, "database": who.database, "application_name": "squall", "client_encoding": "UTF8",
			"DateStyle": "ISO", "TimeZone": "UTC", "IntervalStyle": "iso_8601", "bytea_output": "hex", "extra_float_digits": "1",
		},
	})
	if err := s.wire.Flush(); err != nil {
		return err
	}
	proof := &scram{password: who.password}
	for {
		m, err := s.wire.Receive()
		if err != nil {
			return err
		}
		switch m := m.(type) {
		case *pgproto3.ErrorResponse:
			return said(m)
		case *pgproto3.ReadyForQuery:
			return nil
		case pgproto3.AuthenticationResponseMessage:
			if err := s.authenticate(who, proof, m); err != nil {
				return err
			}
		}
	}
}

// authenticate does what the server asks for.
func (s *session) authenticate(who account, proof *scram, asked pgproto3.AuthenticationResponseMessage) error {
	switch m := asked.(type) {
	case *pgproto3.AuthenticationCleartextPassword:
		return s.reply(&pgproto3.PasswordMessage{Password: who.password})
	case *pgproto3.AuthenticationMD5Password:
		return s.reply(&pgproto3.PasswordMessage{Password: salted(who, m.Salt[:])})
	case *pgproto3.AuthenticationSASL:
		if !slices.Contains(m.AuthMechanisms, mechanism) {
			return fmt.Errorf("postgres: the server wants one of %s", strings.Join(m.AuthMechanisms, ", "))
		}
		return s.reply(&pgproto3.SASLInitialResponse{AuthMechanism: mechanism, Data: []byte("n,," + bare)})
	case *pgproto3.AuthenticationSASLContinue:
		text, err := proof.final(string(m.Data))
		if err != nil {
			return err
		}
		return s.reply(&pgproto3.SASLResponse{Data: []byte(text)})
	case *pgproto3.AuthenticationSASLFinal:
		if !proof.verify(string(m.Data)) {
			return errProof{}
		}
	case *pgproto3.AuthenticationGSS, *pgproto3.AuthenticationGSSContinue:
		return errors.New("postgres: the server wants GSSAPI")
	}
	return nil
}

func (s *session) reply(m pgproto3.FrontendMessage) error {
	s.wire.Send(m)
	return s.wire.Flush()
}

// salted is the answer to a request for an MD5 password.
func salted(who account, salt []byte) string {
	sum := func(parts ...string) string {
		h := md5.Sum([]byte(strings.Join(parts, ""))) //nolint:gosec // The protocol's own.
		return hex.EncodeToString(h[:])
	}
	return "md5" + sum(sum(who.password, who.user), string(salt))
}

// mechanism is the way to prove a password that is implemented here, without channel binding.
const mechanism = "SCRAM-SHA-256"

// The client's nonce is the same each time, so that runs are: the server adds one of its own, and what it protects is a
// password that stands in the specification.
const (
	nonce = "squallsquallsquall"
	bare  = "n=,r=" + nonce
)

// errProof says that the server does not know the password itself, or does not keep to RFC 5802.
type errProof struct{}

func (errProof) Error() string { return "postgres: the server's part of SCRAM is wrong" }

// maxRounds bounds the work that a server can ask for; PostgreSQL asks for 4096.
const maxRounds = 1 << 20

// scram proves a password as RFC 5802 and RFC 7677 say. Passwords are taken as they are, without SASLprep, which
// leaves ASCII as it is.
type scram struct {
	password string
	// server is the signature by which the server proves that it knows the password too.
	server []byte
}

// final answers the server's challenge.
func (p *scram) final(challenge string) (string, error) {
	fields := map[string]string{}
	for _, f := range strings.Split(challenge, ",") {
		key, value, _ := strings.Cut(f, "=")
		fields[key] = value
	}
	salt, err := base64.StdEncoding.DecodeString(fields["s"])
	rounds, badRounds := strconv.Atoi(fields["i"])
	if err != nil || badRounds != nil || rounds < 1 || rounds > maxRounds || len(fields["r"]) <= len(nonce) || !strings.HasPrefix(fields["r"], nonce) {
		return "", errProof{}
	}
	key, err := pbkdf2.Key(sha256.New, p.password, salt, rounds, sha256.Size)
	if err != nil {
		return "", fmt.Errorf("postgres: SCRAM: %w", err)
	}
	without := "c=biws,r=" + fields["r"]
	signed := bare + "," + challenge + "," + without
	clientKey := sign(key, "Client Key")
	stored := sha256.Sum256(clientKey)
	p.server = sign(sign(key, "Server Key"), signed)
	proof := make([]byte, sha256.Size)
	subtle.XORBytes(proof, clientKey, sign(stored[:], signed))
	return without + ",p=" + base64.StdEncoding.EncodeToString(proof), nil
}

func (p *scram) verify(final string) bool {
	got, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(final, "v="))
	return err == nil && p.server != nil && hmac.Equal(got, p.server)
}

func sign(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}
