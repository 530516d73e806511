// What the dumbbell and the chain measure, and the queue that marks like Poseidon's simulator.
#pragma once

#include "common.h"

#include <vector>

namespace peers
{

/// A FIFO queue that marks a packet on dequeue if the remaining queue exceeds a threshold, as in Poseidon's simulator.
/// In contrast, ns-3's RED marks packets on enqueue.
class MarkOnDequeueDisc : public QueueDisc
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId id = TypeId("peers::MarkOnDequeueDisc")
                               .SetParent<QueueDisc>()
                               .AddConstructor<MarkOnDequeueDisc>()
                               .AddAttribute("MaxSize",
                                             "Queue limit in packets",
                                             QueueSizeValue(QueueSize("1000p")),
                                             MakeQueueSizeAccessor(&QueueDisc::SetMaxSize, &QueueDisc::GetMaxSize),
                                             MakeQueueSizeChecker())
                               .AddAttribute("Threshold",
                                             "Marking threshold in packets",
                                             UintegerValue(65),
                                             MakeUintegerAccessor(&MarkOnDequeueDisc::m_threshold),
                                             MakeUintegerChecker<uint32_t>());
        return id;
    }

    MarkOnDequeueDisc()
        : QueueDisc(QueueDiscSizePolicy::SINGLE_INTERNAL_QUEUE)
    {
    }

  private:
    bool DoEnqueue(Ptr<QueueDiscItem> item) override
    {
        if (GetCurrentSize() + item > GetMaxSize())
        {
            DropBeforeEnqueue(item, "full");
            return false;
        }
        return GetInternalQueue(0)->Enqueue(item);
    }

    Ptr<QueueDiscItem> DoDequeue() override
    {
        Ptr<QueueDiscItem> item = GetInternalQueue(0)->Dequeue();
        // The packet moves to the one-packet device queue when the transmission of the previous packet starts. At this
        // point, the queue consists of this packet and all packets behind it. Poseidon's simulator compares the same
        // queue length with the threshold, but one packet earlier.
        if (item && GetInternalQueue(0)->GetNPackets() + 1 > m_threshold)
        {
            Mark(item, "step");
        }
        return item;
    }

    bool CheckConfig() override
    {
        if (GetNInternalQueues() == 0)
        {
            AddInternalQueue(CreateObjectWithAttributes<DropTailQueue<QueueDiscItem>>("MaxSize",
                                                                                     QueueSizeValue(GetMaxSize())));
        }
        return GetNInternalQueues() == 1 && GetNQueueDiscClasses() == 0;
    }

    void InitializeParams() override
    {
    }

    uint32_t m_threshold{65};
};

/// A host's queue, which sends ACKs first, as hosts in Poseidon's simulator do. It neither marks nor drops.
class AcksFirstDisc : public QueueDisc
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId id = TypeId("peers::AcksFirstDisc").SetParent<QueueDisc>().AddConstructor<AcksFirstDisc>();
        return id;
    }

    AcksFirstDisc()
        : QueueDisc(QueueDiscSizePolicy::MULTIPLE_QUEUES)
    {
    }

  private:
    bool DoEnqueue(Ptr<QueueDiscItem> item) override
    {
        // A TCP header has at most 60 bytes.
        return GetInternalQueue(item->GetPacket()->GetSize() <= 60 ? 0 : 1)->Enqueue(item);
    }

    Ptr<QueueDiscItem> DoDequeue() override
    {
        Ptr<QueueDiscItem> item = GetInternalQueue(0)->Dequeue();
        return item ? item : GetInternalQueue(1)->Dequeue();
    }

    bool CheckConfig() override
    {
        while (GetNInternalQueues() < 2)
        {
            AddInternalQueue(CreateObjectWithAttributes<DropTailQueue<QueueDiscItem>>("MaxSize", StringValue("1000000p")));
        }
        return GetNQueueDiscClasses() == 0;
    }

    void InitializeParams() override
    {
    }
};

/// Periodically samples a queue.
struct QueueSampler
{
    Ptr<QueueDisc> disc;
    Ptr<Queue<Packet>> device;
    Time interval;
    uint64_t samples{0};
    double totalBytes{0};

    void Sample()
    {
        // Packets in the queue disc do not have a two-byte PPP header yet.
        totalBytes += disc->GetNBytes() + 2.0 * disc->GetNPackets() + device->GetNBytes();
        ++samples;
        Simulator::Schedule(interval, &QueueSampler::Sample, this);
    }
};

/// Periodically records the number of bytes received by each receiver.
struct ReceiverSampler
{
    NodeContainer hosts;
    Time interval;
    /// The number of bytes received, indexed by sample and host.
    std::vector<std::vector<uint64_t>> bytes;

    void Sample()
    {
        std::vector<uint64_t> sample;
        for (uint32_t i = 0; i < hosts.GetN(); ++i)
        {
            sample.push_back(DynamicCast<PacketSink>(hosts.Get(i)->GetApplication(0))->GetTotalRx());
        }
        bytes.push_back(sample);
        Simulator::Schedule(interval, &ReceiverSampler::Sample, this);
    }
};

} // namespace peers
