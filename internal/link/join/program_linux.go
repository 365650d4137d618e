package join

import "golang.org/x/sys/unix"

// Offsets in struct sk_msg_md, the program's context; helpers and verdicts, all from linux/bpf.h.
const (
	ctxRemotePort  = 60
	ctxLocalPort   = 64
	ctxSize        = 68
	helperLookup   = 1
	helperRedirect = 60
	helperNetns    = 122
	verdictPass    = 1
)

// reg is a register of eBPF; r10 is the frame.
type reg uint8

const (
	r0 reg = iota
	r1
	r2
	r3
	r4
	_
	r6
	r7
	r8
	r9
	r10
)

// assembler collects instructions; jumps name the label that they lead to.
type assembler struct {
	code   []instruction
	jumps  map[int]string
	labels map[string]int
}

func (a *assembler) add(code int, dst, src reg, off int16, imm int32) {
	a.code = append(a.code, instruction{uint8(code), uint8(dst) | uint8(src)<<4, off, imm})
}

func (a *assembler) load32(dst, src reg, off int16) {
	a.add(unix.BPF_LDX|unix.BPF_MEM|unix.BPF_W, dst, src, off, 0)
}

func (a *assembler) load64(dst, src reg, off int16) {
	a.add(unix.BPF_LDX|unix.BPF_MEM|unix.BPF_DW, dst, src, off, 0)
}

func (a *assembler) store32(dst reg, off int16, src reg) {
	a.add(unix.BPF_STX|unix.BPF_MEM|unix.BPF_W, dst, src, off, 0)
}

func (a *assembler) store64(dst reg, off int16, src reg) {
	a.add(unix.BPF_STX|unix.BPF_MEM|unix.BPF_DW, dst, src, off, 0)
}

func (a *assembler) atomic(op int32, dst reg, off int16, src reg) {
	a.add(unix.BPF_STX|unix.BPF_ATOMIC|unix.BPF_DW, dst, src, off, op)
}

func (a *assembler) move(dst, src reg) { a.add(unix.BPF_ALU64|unix.BPF_MOV|unix.BPF_X, dst, src, 0, 0) }

func (a *assembler) set(dst reg, imm int32) {
	a.add(unix.BPF_ALU64|unix.BPF_MOV|unix.BPF_K, dst, 0, 0, imm)
}

// math does one operation with a register, or with a number where src is none.
func (a *assembler) math(op int, dst, src reg) { a.add(unix.BPF_ALU64|op|unix.BPF_X, dst, src, 0, 0) }

func (a *assembler) mathK(op int, dst reg, imm int32) {
	a.add(unix.BPF_ALU64|op|unix.BPF_K, dst, 0, 0, imm)
}

func (a *assembler) call(helper int32) { a.add(unix.BPF_JMP|unix.BPF_CALL, 0, 0, 0, helper) }

func (a *assembler) jumpK(op int, dst reg, imm int32, to string) {
	a.jumps[len(a.code)] = to
	a.add(unix.BPF_JMP|op|unix.BPF_K, dst, 0, 0, imm)
}

func (a *assembler) jump(op int, dst, src reg, to string) {
	a.jumps[len(a.code)] = to
	a.add(unix.BPF_JMP|op|unix.BPF_X, dst, src, 0, 0)
}

func (a *assembler) label(name string) { a.labels[name] = len(a.code) }

// number loads a map, given by its descriptor, or with kind 0 a number of 64 bits; that takes two instructions.
func (a *assembler) number(dst, kind reg, v uint64) {
	a.add(unix.BPF_LD|unix.BPF_DW|unix.BPF_IMM, dst, kind, 0, int32(v))
	a.add(0, 0, 0, 0, int32(v>>32))
}

const pseudoMap = reg(1)

// lookup leaves the element of a map whose key is in the frame in r0.
func (a *assembler) lookup(m int, key int32) {
	a.number(r1, pseudoMap, uint64(m))
	a.move(r2, r10)
	a.mathK(unix.BPF_ADD, r2, key)
	a.call(helperLookup)
	a.jumpK(unix.BPF_JEQ, r0, 0, "pass")
}

func (a *assembler) done() []instruction {
	for at, to := range a.jumps {
		a.code[at].off = int16(a.labels[to] - at - 1)
	}
	return a.code
}

// verdict is the program. A source's runs are serialized by its lock. In the terms of C:
//
//	lane = lookup(lanes, {netns_cookie(), local_port, remote_port}), l = lookup(records, lane);
//	if (!l) return PASS;
//	if (l->gate & OPEN) {
//	    if (size <= largest && l->budget >= size + cost) {
//	        l->budget -= size + cost;
//	        if (redirect(targets, lane) == PASS) { l->carried += size; return PASS; }
//	    }
//	    l->gate &= ~OPEN;
//	}
//	if (fetch_add(&l->gate, size) & OPEN) l->gate &= ~OPEN;
//	return PASS;
func verdict(m *maps) []instruction {
	const key = -keySize
	a := &assembler{jumps: map[int]string{}, labels: map[string]int{}}
	a.move(r6, r1)
	a.call(helperNetns)
	a.store64(r10, key, r0)
	a.load32(r1, r6, ctxLocalPort)
	a.store32(r10, key+8, r1)
	a.load32(r1, r6, ctxRemotePort)
	a.store32(r10, key+12, r1)
	a.lookup(m.lanes, key)
	a.load32(r8, r0, 0)
	a.store32(r10, key, r8)
	a.lookup(m.records, key)
	a.move(r9, r0)
	a.load64(r1, r9, offGate)
	a.jumpK(unix.BPF_JSGE, r1, 0, "leave")

	a.load32(r7, r6, ctxSize)
	a.jumpK(unix.BPF_JGT, r7, largestMessage, "shut")
	a.load64(r1, r9, offBudget)
	a.move(r2, r7)
	a.mathK(unix.BPF_ADD, r2, messageCost)
	a.jump(unix.BPF_JLT, r1, r2, "shut")
	a.math(unix.BPF_SUB, r1, r2)
	a.store64(r9, offBudget, r1)
	a.move(r1, r6)
	a.number(r2, pseudoMap, uint64(m.targets))
	a.move(r3, r8)
	a.set(r4, 0)
	a.call(helperRedirect)
	a.jumpK(unix.BPF_JNE, r0, verdictPass, "shut")
	a.load64(r1, r9, offCarried)
	a.math(unix.BPF_ADD, r1, r7)
	a.store64(r9, offCarried, r1)
	a.jumpK(unix.BPF_JA, 0, 0, "pass")

	a.label("shut")
	a.number(r1, 0, ^gateOpen)
	a.atomic(unix.BPF_AND, r9, offGate, r1)
	a.label("leave")
	a.load32(r1, r6, ctxSize)
	a.atomic(unix.BPF_ADD|unix.BPF_FETCH, r9, offGate, r1)
	a.jumpK(unix.BPF_JSGE, r1, 0, "pass")
	a.number(r1, 0, ^gateOpen)
	a.atomic(unix.BPF_AND, r9, offGate, r1)
	a.label("pass")
	a.set(r0, verdictPass)
	a.add(unix.BPF_JMP|unix.BPF_EXIT, 0, 0, 0, 0)
	return a.done()
}
