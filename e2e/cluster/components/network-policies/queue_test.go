package main

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestAttributesRoundTrip(t *testing.T) {
	t.Parallel()
	content := append(attribute(packetHeader, []byte{0, 0, 0, 7, 8}), attribute(packetPayload, []byte("head"))...)
	require.Zero(t, len(content)%4, "the kernel aligns")
	found := attributes(content)
	require.Equal(t, []byte{0, 0, 0, 7, 8}, found[packetHeader])
	require.Equal(t, []byte("head"), found[packetPayload])
	for end := range content {
		require.NotPanics(t, func() { attributes(content[:end]) })
	}
}

func TestMessagesOfOneBufferAreSplit(t *testing.T) {
	t.Parallel()
	message := func(kind uint16, content string) []byte {
		made := binary.NativeEndian.AppendUint32(nil, uint32(netlinkHeader+len(content)))
		made = binary.NativeEndian.AppendUint16(made, kind)
		made = append(made, make([]byte, netlinkHeader-len(made))...)
		made = append(made, content...)
		return append(made, make([]byte, align(len(made))-len(made))...)
	}
	buffer := append(message(messagePacket, "first"), message(unix.NLMSG_ERROR, "second")...)
	found := messages(buffer)
	require.Len(t, found, 2)
	require.Equal(t, "first", string(found[0].content))
	require.Equal(t, uint16(unix.NLMSG_ERROR), found[1].kind)
	require.Len(t, messages(buffer[:len(buffer)-4]), 1, "an incomplete message must be ignored")
}

func TestPacketWithoutAVerdictIsDropped(t *testing.T) {
	t.Parallel()
	written := rules("10.0.0.0/24")
	established, asked := -1, 0
	for i, rule := range written {
		require.NotContains(t, rule, "bypass", "by which the kernel would let pass what nobody answers for")
		if strings.Contains(rule, "ESTABLISHED") {
			established = i
		}
		if strings.Contains(rule, "NFQUEUE") {
			asked++
			require.Contains(t, rule, "10.0.0.0/24")
			require.GreaterOrEqual(t, established, 0, "replies must pass first: only a connection's first packet is queued")
		}
	}
	require.Equal(t, 2, asked, "from and to the pods of the node")
}
