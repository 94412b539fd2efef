-- SPDX-License-Identifier: BSD-3-Clause
-- Decodes uroce's own packets, extended atomics (nic/extended.md), behind Wireshark's dissector for InfiniBand:
--   tshark -X lua_script:scripts/uroce.lua -r trace.pcapng

local uroce = Proto("uroce", "uroce extended atomics")

local NAMES = {
	[0xc0] = "Masked Compare and Swap",
	[0xc1] = "Masked Fetch and Add",
	[0xc2] = "Extended Atomic Acknowledge",
}
local OPERANDS = {
	[0xc0] = {"swap", "compare", "swap_mask", "compare_mask"},
	[0xc1] = {"add", "boundary"},
}
local BTH, AETH, EXT_ATOMIC_ETH = 12, 4, 16

local fields = {
	opcode = ProtoField.uint8("uroce.opcode", "Operation", base.HEX, NAMES),
	va = ProtoField.uint64("uroce.va", "Virtual address", base.HEX),
	rkey = ProtoField.uint32("uroce.rkey", "R_Key", base.HEX),
	log_size = ProtoField.uint8("uroce.log_size", "log2 of the size in bytes"),
	swap = ProtoField.bytes("uroce.swap", "Swap"),
	compare = ProtoField.bytes("uroce.compare", "Compare"),
	swap_mask = ProtoField.bytes("uroce.swap_mask", "Swap mask"),
	compare_mask = ProtoField.bytes("uroce.compare_mask", "Compare mask"),
	add = ProtoField.bytes("uroce.add", "Add"),
	boundary = ProtoField.bytes("uroce.boundary", "Field boundaries"),
	syndrome = ProtoField.uint8("uroce.syndrome", "Syndrome", base.HEX),
	msn = ProtoField.uint24("uroce.msn", "Message sequence number"),
	original = ProtoField.bytes("uroce.original", "Value before"),
}
uroce.fields = fields

local malformed = ProtoExpert.new("uroce.malformed", "Malformed", expert.group.MALFORMED, expert.severity.ERROR)
uroce.experts = {malformed}

local bth_opcode = Field.new("infiniband.bth.opcode")
local bth_pad = Field.new("infiniband.bth.padcnt")
local udp_length = Field.new("udp.length")

local function request(tvb, tree, opcode)
	if tvb:len() < EXT_ATOMIC_ETH then
		return false
	end
	local log_size = tvb(12, 1):uint()
	tree:add(fields.va, tvb(0, 8))
	tree:add(fields.rkey, tvb(8, 4))
	tree:add(fields.log_size, tvb(12, 1))
	if log_size < 2 or log_size > 5 then
		return false
	end
	local size, names = 2 ^ log_size, OPERANDS[opcode]
	if tvb:len() ~= EXT_ATOMIC_ETH + #names * size then
		return false
	end
	for i, name in ipairs(names) do
		tree:add(fields[name], tvb(EXT_ATOMIC_ETH + (i - 1) * size, size))
	end
	return true
end

local function response(tvb, tree)
	local size = tvb:len() - AETH
	if size ~= 4 and size ~= 8 and size ~= 16 and size ~= 32 then
		return false
	end
	tree:add(fields.syndrome, tvb(0, 1))
	tree:add(fields.msn, tvb(1, 3))
	tree:add(fields.original, tvb(AETH, size))
	return true
end

function uroce.dissector(tvb, pinfo, tree)
	local found = bth_opcode()
	local opcode = found and found.value
	if not NAMES[opcode] then
		return
	end
	local start = found.offset + BTH
	local pad, length = bth_pad(), udp_length()
	if not length then
		return
	end
	local len = length.value - 8 - BTH - 4 - (pad and pad.value or 0) -- less the ICRC, and what fills the last word
	if len < 0 or start + len > tvb:len() then
		return -- the capture has cut it
	end
	local body = tvb(start, len):tvb()
	local subtree = tree:add(uroce, tvb(start, len))
	subtree:add(fields.opcode, tvb(found.offset, 1))
	local good
	if opcode == 0xc2 then
		good = response(body, subtree)
	else
		good = request(body, subtree, opcode)
	end
	if not good then
		subtree:add_proto_expert_info(malformed)
	end
	pinfo.cols.info:set("RC " .. NAMES[opcode])
end

register_postdissector(uroce)
