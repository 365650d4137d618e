package link

import (
	"strings"
	"testing"
	"time"

	"github.com/squallhq/squall/internal/link/message"
	"github.com/squallhq/squall/protocol"
)

// plain is a conversation of bytes that are no messages.
type plain struct{}

func (plain) Requests(p []byte) ([]protocol.Frame, error)  { return []protocol.Frame{{Bytes: p}}, nil }
func (plain) Responses(p []byte) ([]protocol.Frame, error) { return []protocol.Frame{{Bytes: p}}, nil }
func (plain) Forwarded(*protocol.Message)                  {}

func (plain) Answer(*protocol.Message, protocol.Answer) ([]byte, error) { return nil, nil }

// through follows the messages of the flows of TestMediated.
func through(t testing.TB) func(Flow) (message.Config, bool) {
	return func(Flow) (message.Config, bool) {
		return message.Config{Conversation: plain{}, Tell: func(message.Event) {}}, strings.HasPrefix(t.Name(), "TestMediated/")
	}
}

// TestMediated: a connection whose messages are followed behaves as any other, under rules on the connection too.
func TestMediated(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"copies": TestRelayCopiesBothWays, "half_close": TestRelayPassesHalfCloseInItsOwnDirection, "reset": TestRelayPassesResetAsReset,
		"reset_rule": TestResetRuleResetsBothEnds, "reset_in_flight": TestResetWhileDataIsInFlight, "reset_after": TestResetAfterBytesOnNewConnection,
		"cut": TestCut, "latency": TestLatencyOneWayDoesNotBlockTheSender, "intact": TestCopyStaysIntact, "reset_overtakes": TestResetOvertakesUndeliveredData,
		"orderly": TestOrderlyEndIsNoReset, "partition_heals": TestPartitionHealsAndFiresHonestly, "pulled_cable": TestSilenceIsFeltAsByAPulledCable,
		"one_way": TestOneWayPartition, "overlapping": TestOverlappingPartitionsAreIndependent, "taken": TestPartitionHoldsWhatTheRelayHasTaken,
		"fin": TestPartitionWithholdsFin, "full_client": TestResetPastAFullClient, "early": TestSilenceRightAfterDataIsFeltInTime, "at_once": TestSilenceBeginsAtOnce,
	} {
		t.Run(name, test)
	}
}

// TestResetPastAFullClient: a server's reset comes through although the client reads nothing of what came before.
func TestResetPastAFullClient(t *testing.T) {
	b := newBench(t)
	block := make([]byte, 64<<10)
	for {
		_ = b.server.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
		if _, err := b.server.Write(block); err != nil {
			break
		}
	}
	_ = b.server.SetLinger(0)
	b.server.Close()
	b.await(t, OpReset)
}
