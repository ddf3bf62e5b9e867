"""FastStream on aiokafka: bills orders, and enters the invoices into a book."""

import asyncio
import sys

from faststream import FastStream
from faststream.kafka import KafkaBroker

broker = KafkaBroker(sys.argv[1])
app = FastStream(broker)
book: dict[int, int] = {}


@broker.subscriber("fs-orders", group_id="billing", auto_offset_reset="earliest")
@broker.publisher("fs-invoices")
async def bill(order: dict[str, int]) -> dict[str, int]:
    return {"order": order["id"], "total": order["price"] * order["count"]}


@broker.subscriber("fs-invoices", group_id="accounting", auto_offset_reset="earliest")
async def enter(invoice: dict[str, int]) -> None:
    book[invoice["order"]] = invoice["total"]
    if len(book) == 3:
        app.exit()


@app.after_startup
async def order() -> None:
    for number in range(3):
        row = {"id": number, "price": 10, "count": number}
        await broker.publish(row, "fs-orders", key=b"%d" % number)


asyncio.run(app.run())
print(sorted(book.items()))
