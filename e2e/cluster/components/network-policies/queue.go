package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// The messages and attributes of the kernel's nfnetlink_queue.
const (
	messagePacket  = unix.NFNL_SUBSYS_QUEUE << 8
	messageAnswer  = unix.NFNL_SUBSYS_QUEUE<<8 | 1
	messageConfig  = unix.NFNL_SUBSYS_QUEUE<<8 | 2
	configCommand  = 1
	configParams   = 2
	packetHeader   = 1
	packetPayload  = 10
	answerHeader   = 2
	commandBind    = 1
	copyPacket     = 2
	drop, accept   = 0, 1
	headLength     = 128 // bytes of a packet that are copied: its addresses and ports
	netlinkHeader  = 16
	familyHeader   = 4
	receiveBuffers = 4 << 20
)

// queue is the netlink socket of the kernel's queue.
type queue struct{ socket int }

type decider interface{ allows(first packet) bool }

func openQueue() (*queue, error) {
	socket, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	opened := &queue{socket: socket}
	if err := unix.Bind(socket, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, os.NewSyscallError("bind", err)
	}
	_ = unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffers)
	command := attribute(configCommand, []byte{commandBind, 0, 0, unix.AF_INET})
	params := attribute(configParams, append(binary.BigEndian.AppendUint32(nil, headLength), copyPacket))
	for _, configuration := range [][]byte{command, params} {
		if err := opened.configure(configuration); err != nil {
			return nil, fmt.Errorf("ask the kernel for queue %d: %w", queueNumber, err)
		}
	}
	return opened, nil
}

// configure sends one attribute and waits for the kernel's acknowledgement.
func (q *queue) configure(content []byte) error {
	if err := q.send(messageConfig, unix.NLM_F_ACK, content); err != nil {
		return err
	}
	buffer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(q.socket, buffer, 0)
	if err != nil {
		return os.NewSyscallError("recvfrom", err)
	}
	for _, one := range messages(buffer[:n]) {
		if one.kind == unix.NLMSG_ERROR && len(one.content) >= 4 {
			if code := int32(binary.NativeEndian.Uint32(one.content)); code != 0 {
				return unix.Errno(-code)
			}
			return nil
		}
	}
	return errors.New("the kernel did not answer")
}

// serve decides packets until the socket fails. A full buffer is not a failure: the packets are sent again.
func (q *queue) serve(by decider) error {
	buffer := make([]byte, 1<<16)
	for {
		n, _, err := unix.Recvfrom(q.socket, buffer, 0)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.ENOBUFS) {
			continue
		}
		if err != nil {
			return os.NewSyscallError("recvfrom", err)
		}
		for _, one := range messages(buffer[:n]) {
			if one.kind != messagePacket || len(one.content) < familyHeader {
				continue
			}
			if err := q.answer(one.content[familyHeader:], by); err != nil {
				return err
			}
		}
	}
}

func (q *queue) answer(content []byte, by decider) error {
	found := attributes(content)
	header := found[packetHeader]
	if len(header) < 4 {
		return nil
	}
	word := uint32(drop)
	if first, err := parse(found[packetPayload]); err == nil && by.allows(first) {
		word = accept
	}
	answer := append(binary.BigEndian.AppendUint32(nil, word), header[:4]...)
	return q.send(messageAnswer, 0, attribute(answerHeader, answer))
}

func (q *queue) send(kind, flags uint16, content []byte) error {
	message := binary.NativeEndian.AppendUint32(nil, uint32(netlinkHeader+familyHeader+len(content)))
	message = binary.NativeEndian.AppendUint16(message, kind)
	message = binary.NativeEndian.AppendUint16(message, unix.NLM_F_REQUEST|flags)
	message = append(message, 0, 0, 0, 0, 0, 0, 0, 0) // neither a sequence nor a sender is needed
	message = append(message, unix.AF_UNSPEC, 0)
	message = binary.BigEndian.AppendUint16(message, queueNumber)
	return os.NewSyscallError("sendto", unix.Sendto(q.socket, append(message, content...), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}))
}

type message struct {
	kind    uint16
	content []byte
}

func messages(buffer []byte) []message {
	var all []message
	for len(buffer) >= netlinkHeader {
		length := int(binary.NativeEndian.Uint32(buffer))
		if length < netlinkHeader || length > len(buffer) {
			break
		}
		all = append(all, message{kind: binary.NativeEndian.Uint16(buffer[4:]), content: buffer[netlinkHeader:length]})
		buffer = buffer[min(align(length), len(buffer)):]
	}
	return all
}

func attribute(kind uint16, content []byte) []byte {
	made := binary.NativeEndian.AppendUint16(nil, uint16(4+len(content)))
	made = append(binary.NativeEndian.AppendUint16(made, kind), content...)
	return append(made, make([]byte, align(len(made))-len(made))...)
}

func attributes(content []byte) map[uint16][]byte {
	found := map[uint16][]byte{}
	for len(content) >= 4 {
		length := int(binary.NativeEndian.Uint16(content))
		if length < 4 || length > len(content) {
			break
		}
		found[binary.NativeEndian.Uint16(content[2:])&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER)] = content[4:length]
		content = content[min(align(length), len(content)):]
	}
	return found
}

func align(length int) int { return (length + 3) &^ 3 }

// packet holds the fields of a packet that policies match.
type packet struct {
	from, to netip.Addr
	protocol corev1.Protocol // empty: a protocol without policies, such as ICMP
	port     int
}

var errNoPacket = errors.New("not the beginning of an IPv4 packet")

var protocols = map[byte]corev1.Protocol{6: corev1.ProtocolTCP, 17: corev1.ProtocolUDP, 132: corev1.ProtocolSCTP}

// parse parses the head of an IPv4 packet.
func parse(head []byte) (packet, error) {
	const shortest = 20
	if len(head) < shortest || head[0]>>4 != 4 {
		return packet{}, errNoPacket
	}
	length := int(head[0]&0xf) * 4
	read := packet{
		from: netip.AddrFrom4([4]byte(head[12:16])), to: netip.AddrFrom4([4]byte(head[16:20])), protocol: protocols[head[9]],
	}
	if read.protocol == "" {
		return read, nil
	}
	if length < shortest || len(head) < length+4 {
		return packet{}, errNoPacket
	}
	read.port = int(binary.BigEndian.Uint16(head[length+2:]))
	return read, nil
}
